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
	"slices"
	"syscall"
	"time"
)

// EnvLab names the directory of the running lab; without it the suites skip.
const EnvLab = "DISTORT_E2E_LAB"

// stopDelay is what an interrupted test run may take to end.
const stopDelay = 10 * time.Second

// Options of Run.
type Options struct {
	// Repo is the checkout, Lab the directory of the running lab.
	Repo, Lab string
	// Suites are run in this order; all that there are when empty.
	Suites []string
	// Flags are further ones of go test.
	Flags []string
	// Out and Err receive what go test prints.
	Out, Err io.Writer
}

// Run runs suites against a lab. They share its drives, so they run one after the
// other, and what a failed suite leaves ends the run: the next would only trip
// over it.
func Run(ctx context.Context, o Options) error {
	module := filepath.Join(o.Repo, "e2e")
	names, err := choose(module, o.Suites)
	if err != nil {
		return err
	}
	for i, name := range names {
		args := append([]string{"test", "-count=1", "-v", "-timeout=60m"}, o.Flags...)
		cmd := exec.CommandContext(ctx, "go", append(args, "./"+suitesDir+"/"+name)...)
		cmd.Dir = module
		cmd.Env = append(os.Environ(), EnvLab+"="+o.Lab)
		cmd.Stdout, cmd.Stderr = o.Out, o.Err
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

// choose returns the suites to run.
func choose(module string, wanted []string) ([]string, error) {
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
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("no suite %q; there are %v", name, names)
		}
	}
	if len(wanted) > 0 {
		return wanted, nil
	}
	return names, nil
}
