package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/e2e/internal/suite"
)

// scratch is where tests run in a guest and make their files: on its disk, as its
// memory is small.
const scratch = "/var/lib/lab-conformance"

// program is a test binary and what is run of it.
type program struct {
	// module and pkg are where the tests are.
	module, pkg string
	// run chooses them, as -test.run does; passes are the names that must have passed.
	run    string
	passes []string
	env    []string
}

// runInGuest builds the program and runs it in the guest. A test that skips is a
// failure: here is the machine that it skips for elsewhere.
func runInGuest(t *testing.T, guest *guestexec.Client, p program) {
	t.Helper()
	built := build(t, p)
	output(t, guest, "mkdir", "-p", "--", scratch)
	t.Cleanup(func() { cleanUp(t, guest, "rm", "-rf", "--", scratch) })
	binary := scratch + "/" + p.module + ".test"
	for _, args := range [][]string{{"tee", binary}, {"chmod", "755", binary}} {
		code, err := guest.Run(t.Context(), guestexec.Request{Args: args}, guestexec.Streams{In: bytes.NewReader(built)})
		if err != nil || code != 0 {
			t.Fatalf("copy the test into the guest: exit code %d, %v", code, err)
		}
	}
	var out bytes.Buffer
	code, err := guest.Run(t.Context(), guestexec.Request{
		Args: []string{binary, "-test.v", "-test.run=" + p.run, "-test.timeout=20m"},
		Env:  append([]string{"TMPDIR=" + scratch, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, p.env...),
	}, guestexec.Streams{Out: &out, Err: &out})
	t.Log("\n" + out.String())
	suite.Must(t, err)
	if code != 0 || strings.Contains(out.String(), "--- SKIP: ") {
		t.Errorf("%s of module %s: exit code %d, or something was skipped", p.run, p.module, code)
	}
	for _, name := range p.passes {
		if !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			t.Errorf("%s has not passed", name)
		}
	}
}

// build compiles the test binary and returns its content.
func build(t *testing.T, p program) []byte {
	t.Helper()
	root, err := repo.Root()
	suite.Must(t, err)
	path := filepath.Join(t.TempDir(), p.module+".test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-o", path, p.pkg)
	cmd.Dir = filepath.Join(root, "modules", p.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the tests of module %s: %v\n%s", p.module, err, out)
	}
	content, err := os.ReadFile(path)
	suite.Must(t, err)
	return content
}

// cleanUp runs a command when the test has ended.
func cleanUp(t *testing.T, guest *guestexec.Client, args ...string) {
	if _, err := guest.Output(context.WithoutCancel(t.Context()), args...); err != nil {
		t.Error(err)
	}
}
