// Package command runs programs of the host: with a context, an environment, a
// log that receives what they print, and an error that says what failed and why.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// tailBytes of a failed program's standard error are put in its error.
	tailBytes = 2048
	// killDelay is how long a cancelled program may take to end on SIGTERM.
	killDelay = 5 * time.Second
)

// Runner runs programs. The zero value runs them in the current directory with
// this process's environment and discards what they print.
type Runner struct {
	// Dir is the working directory; empty means the current one.
	Dir string
	// Env is added to this process's environment, "NAME=value".
	Env []string
	// Log receives the command line, standard output and standard error.
	Log io.Writer
	// Attr is given to the kernel for each process started.
	Attr *syscall.SysProcAttr
}

// Error is a program that ended unsuccessfully.
type Error struct {
	// Args is the command line, program name first.
	Args []string
	// ExitCode is -1 when the program was ended by a signal or did not start.
	ExitCode int
	// Stderr is the tail of its standard error.
	Stderr string
	err    error
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("run %s: %v", strings.Join(e.Args, " "), e.err)
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Unwrap returns the error of os/exec, or the context's.
func (e *Error) Unwrap() error { return e.err }

// With returns a copy of the runner with more environment.
func (r Runner) With(env ...string) Runner {
	r.Env = append(append([]string(nil), r.Env...), env...)
	return r
}

// In returns a copy of the runner with another working directory.
func (r Runner) In(dir string) Runner {
	r.Dir = dir
	return r
}

// Run runs a program to its end.
func (r Runner) Run(ctx context.Context, name string, args ...string) error {
	return r.Pipe(ctx, nil, r.log(), name, args...)
}

// Output runs a program and returns its standard output.
func (r Runner) Output(ctx context.Context, name string, args ...string) (string, error) {
	var out bytes.Buffer
	err := r.Pipe(ctx, nil, io.MultiWriter(&out, r.log()), name, args...)
	return out.String(), err
}

// Pipe runs a program with the given standard input and output.
func (r Runner) Pipe(ctx context.Context, stdin io.Reader, stdout io.Writer, name string, args ...string) error {
	fmt.Fprintf(r.log(), "+ %s %s\n", name, strings.Join(args, " "))
	stderr := &tail{limit: tailBytes}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = r.Dir, append(os.Environ(), r.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, io.MultiWriter(r.log(), stderr)
	cmd.SysProcAttr = r.Attr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	if err == nil {
		return nil
	}
	failure := &Error{Args: append([]string{name}, args...), ExitCode: -1, Stderr: stderr.String(), err: err}
	if ctx.Err() != nil {
		failure.err = ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		failure.ExitCode = exit.ExitCode()
	}
	return failure
}

func (r Runner) log() io.Writer {
	if r.Log == nil {
		return io.Discard
	}
	return r.Log
}

// tail keeps the last bytes written to it.
type tail struct {
	limit int
	data  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if extra := len(t.data) - t.limit; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.data)) }
