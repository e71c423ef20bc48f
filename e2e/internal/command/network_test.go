package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// flaky returns a program that prints text to its standard error and exits with
// 3, as often as said, before it succeeds; and how often it was run.
func flaky(t *testing.T, failures int, text string) (program string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "flaky")
	script := "#!/bin/sh\necho >>" + dir + "/runs\n[ $(wc -l <" + dir + "/runs) -gt " + strconv.Itoa(failures) +
		" ] && exit 0\necho '" + text + "' >&2\nexit 3\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, func() int {
		raw, err := os.ReadFile(filepath.Join(dir, "runs"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "\n")
	}
}

func TestAFailedNetworkIsTriedAgain(t *testing.T) {
	defer func(was []time.Duration) { pauses = was }(pauses)
	pauses = make([]time.Duration, 4)
	const unavailable = "reading .info: 503 Service Unavailable"
	retries := map[string]func(program string) error{
		"Runner": func(program string) error { return Runner{}.RunOnNetwork(t.Context(), program) },
		"hack/retry": func(program string) error {
			cmd := exec.CommandContext(t.Context(), "../../../hack/retry", program)
			cmd.Env = append(os.Environ(), "RETRY_PAUSES=0 0 0 0")
			return cmd.Run()
		},
	}
	for name, retry := range retries {
		for _, test := range []struct {
			name     string
			failures int
			text     string
			runs     int
			fails    bool
		}{
			{name: "twice unavailable", failures: 2, text: unavailable, runs: 3},
			{name: "always unavailable", failures: 100, text: unavailable, runs: 5, fails: true},
			{name: "a mistake in the source", failures: 1, text: "x.go:3:1: undefined: y", runs: 1, fails: true},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				program, runs := flaky(t, test.failures, test.text)
				err := retry(program)
				if (err != nil) != test.fails {
					t.Errorf("error %v, failure wanted: %v", err, test.fails)
				}
				if test.fails && exitCode(err) != 3 {
					t.Errorf("exit code %d of %v, want the program's", exitCode(err), err)
				}
				if runs() != test.runs {
					t.Errorf("%d runs, want %d", runs(), test.runs)
				}
			})
		}
	}
}

func TestBothKnowTheSameFailures(t *testing.T) {
	script, err := os.ReadFile("../../../hack/retry")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), "network='"+networkFailure.String()+"'") {
		t.Errorf("hack/retry has another expression than %s", networkFailure)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
