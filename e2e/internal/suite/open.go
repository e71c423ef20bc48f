package suite

import (
	"os"
	"testing"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/lab"
)

// Open returns the running lab, or skips the test where there is none: suites
// need root, a network namespace and guests, which `go test ./...` has not.
func Open(t *testing.T) *lab.Lab {
	t.Helper()
	dir := os.Getenv(EnvLab)
	if dir == "" {
		t.Skip("no lab: run these tests by `make e2e`, or set " + EnvLab + " to the directory of a running one")
	}
	return lab.New(dir, os.Stdout)
}

// Flow returns a flow in a namespace of the test. If the test fails, it prints
// what the cluster knows.
func Flow(t *testing.T, l *lab.Lab, namespace string) *flow.Flow {
	t.Helper()
	config, err := l.Config()
	if err != nil {
		t.Fatal(err)
	}
	f, err := flow.New(config, l, namespace)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.EnsureNamespace(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			f.Diagnose(t.Context(), os.Stdout)
		}
	})
	return f
}

// Guest gives access to a guest of the lab.
func Guest(t *testing.T, l *lab.Lab, name string) *guestexec.Client {
	t.Helper()
	guest, err := l.Guest(name)
	Must(t, err)
	return guest
}

// Must ends the test at an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
