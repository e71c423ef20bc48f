// Package command runs programs: no shell, a fixed environment, a typed error
// with the exit code.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// Runner runs one program to its end and returns what it wrote to standard
// output, also beside an error. When ctx ends it kills the program and still
// waits: a process inside the kernel may outlive its kill, so callers with a
// deadline run it detached.
type Runner interface {
	Run(ctx context.Context, name string, args ...string) ([]byte, error)
}

// ExitError is a program that ended with a code other than 0.
type ExitError struct {
	Name string
	Args []string
	Code int
	// Stderr is the first part of what it said.
	Stderr string
}

// Error names program, operands, code and message.
func (e *ExitError) Error() string {
	return fmt.Sprintf("%s %s: exit code %d: %s", e.Name, strings.Join(e.Args, " "), e.Code, e.Stderr)
}

// ExitCode is the exit code behind err; false when the program did not end by
// itself.
func ExitCode(err error) (int, bool) {
	var exit *ExitError
	if errors.As(err, &exit) {
		return exit.Code, true
	}
	return 0, false
}

// Exec runs programs of this host, found in the usual directories.
type Exec struct{}

var _ Runner = Exec{}

const (
	maxStdout = 1 << 20
	maxStderr = 4 << 10
)

// Run implements Runner.
func (Exec) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	// Own group, so that helpers of the program die with it (known fault BM5).
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	stdout, stderr := limited{limit: maxStdout}, limited{limit: maxStderr}
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return stdout.Bytes(), nil
	case ctx.Err() != nil:
		return stdout.Bytes(), fmt.Errorf("%s: %w", name, ctx.Err())
	case errors.As(err, &exit) && exit.Exited():
		return stdout.Bytes(), &ExitError{Name: name, Args: args, Code: exit.ExitCode(), Stderr: strings.TrimSpace(stderr.String())}
	default:
		return stdout.Bytes(), fmt.Errorf("run %s: %w", name, err)
	}
}

// limited keeps the first bytes and swallows the rest.
type limited struct {
	bytes.Buffer
	limit int
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.limit-l.Len())
	l.Buffer.Write(p[:keep])
	return len(p), nil
}

// Require names the programs that this host lacks (known fault EX4).
func Require(names ...string) error {
	var failures []error
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			failures = append(failures, fmt.Errorf("program %s is needed: %w", name, err))
		}
	}
	return errors.Join(failures...)
}
