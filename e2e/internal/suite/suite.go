// Package suite runs the end-to-end suites, which are ordinary Go tests that
// find the running lab by an environment variable.
package suite

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// EnvLab names the directory of the running lab; without it the suites skip.
const EnvLab = "DISTORT_E2E_LAB"

// stopDelay is what an interrupted test run may take to end.
const stopDelay = 10 * time.Second

// Run runs the suites of a checkout against the lab in a directory. They share
// its drives, so they run one after the other, and what a failed suite leaves
// ends the run: the next would only trip over it. What it prints is go test's own.
func Run(ctx context.Context, repo, lab string, flags []string, stdout, stderr io.Writer) error {
	module := filepath.Join(repo, "e2e")
	names, err := suites(module)
	if err != nil {
		return err
	}
	for i, name := range names {
		args := append([]string{"test", "-count=1", "-v", "-timeout=30m"}, flags...)
		cmd := exec.CommandContext(ctx, "go", append(args, "./"+suitesDir+"/"+name)...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), EnvLab+"="+lab)
		cmd.Stdout, cmd.Stderr = stdout, stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = stopDelay
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("suite %s: %w; not run: %v", name, err, names[i+1:])
		}
	}
	return nil
}

// suitesDir holds a folder for each suite.
const suitesDir = "suites"

func suites(module string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(module, suitesDir))
	if err != nil {
		return nil, fmt.Errorf("suites: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}
