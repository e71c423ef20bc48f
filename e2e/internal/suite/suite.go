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

// Run runs the suites of a checkout against the lab in a directory, one after
// the other: they share its drives. What it
// prints is go test's own.
func Run(ctx context.Context, repo, lab string, flags []string, stdout, stderr io.Writer) error {
	args := append([]string{"test", "-count=1", "-v", "-p=1", "-timeout=30m"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./suites/...")...)
	cmd.Dir = filepath.Join(repo, "e2e")
	cmd.Env = append(os.Environ(), EnvLab+"="+lab)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopDelay
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("suites: %w", err)
	}
	return nil
}
