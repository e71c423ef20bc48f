package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Limits of what is kept of a program's output. The tools we call print a few
// KiB; 128 partitions in JSON are about 40 KiB.
const (
	maxOutput = 4 << 20
	maxStderr = 2 << 10
)

// pipeGrace is how long Run waits for output pipes that a stray grandchild keeps
// open after the program itself has ended.
const pipeGrace = 2 * time.Second

// Exec runs programs of this host.
type Exec struct {
	env []string
}

var _ Runner = (*Exec)(nil)

// NewExec returns a Runner for the host's programs. They are looked up in the
// agent's PATH, and run with a fixed environment in the C locale so that their
// output does not depend on how the agent was started.
func NewExec() *Exec {
	return &Exec{env: []string{
		"LC_ALL=C",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}}
}

// Run implements Runner.
func (e *Exec) Run(ctx context.Context, c Cmd) (Result, error) {
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
	stdout, stderr := &limitedBuffer{max: maxOutput}, &limitedBuffer{max: maxOutput}
	cmd.Stdin = strings.NewReader(c.Stdin)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Env = e.env
	// Its own group, so that the end of ctx reaches what the program started too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeGrace

	err := cmd.Run()
	res := Result{Stdout: stdout.buf.Bytes(), Stderr: stderr.buf.Bytes()}
	if ctx.Err() != nil && err != nil {
		return res, fmt.Errorf("run %s: %w", c, context.Cause(ctx))
	}
	if stdout.cut {
		return res, fmt.Errorf("run %s: more than %d bytes of output", c, maxOutput)
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return res, nil
	case errors.As(err, &exit) && exit.Exited():
		return res, &ExitError{Cmd: c.String(), Code: exit.ExitCode(), Stderr: brief(res.Stderr)}
	default:
		return res, fmt.Errorf("run %s: %w", c, err)
	}
}

func brief(b []byte) string {
	if len(b) > maxStderr {
		b = b[:maxStderr]
	}
	return string(bytes.TrimSpace(b))
}

// limitedBuffer keeps the first max bytes and swallows the rest, so that a
// program which talks too much is neither blocked nor held in memory.
type limitedBuffer struct {
	buf bytes.Buffer
	max int
	cut bool
}

func (l *limitedBuffer) Write(p []byte) (int, error) {
	room := l.max - l.buf.Len()
	if len(p) > room {
		l.cut = true
		l.buf.Write(p[:room])
		return len(p), nil
	}
	return l.buf.Write(p)
}
