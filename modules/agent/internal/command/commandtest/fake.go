// Package commandtest has a command.Runner for tests: programs are Go functions
// that may keep state, calls are recorded, and a run can be cut off before or
// after any call, as a kill of the agent would.
package commandtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/command"
)

// ErrKilled is what a call answers at and after the point where the test cut the
// run off.
var ErrKilled = errors.New("killed by the test")

// Program behaves as one program: it gets the arguments and the standard input
// and answers with output and an exit code.
type Program func(ctx context.Context, args []string, stdin string) (stdout, stderr string, code int)

// Runner is a recording fake. The zero value knows no program. It is safe for
// concurrent use; programs run one at a time.
type Runner struct {
	mu       sync.Mutex
	programs map[string]Program
	calls    []command.Cmd
	observe  func()
	budget   int // calls left before the kill; negative: no limit
	after    bool
	killed   bool
	limited  bool
}

var _ command.Runner = (*Runner)(nil)

// New returns a Runner with the given programs, by name.
func New(programs map[string]Program) *Runner {
	return &Runner{programs: programs}
}

// KillBefore makes call number n from now (0 is the next one) and all later ones
// fail with ErrKilled without any effect.
func (r *Runner) KillBefore(n int) { r.kill(n, false) }

// KillAfter lets call number n from now take effect, and makes it and all later
// ones fail with ErrKilled: the caller never learns what it did.
func (r *Runner) KillAfter(n int) { r.kill(n, true) }

func (r *Runner) kill(n int, after bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budget, r.after, r.limited, r.killed = n, after, true, false
}

// Revive ends a kill: calls work again.
func (r *Runner) Revive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limited, r.killed = false, false
}

// Killed says whether the kill point was reached.
func (r *Runner) Killed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed
}

// Calls returns the commands so far, oldest first.
func (r *Runner) Calls() []command.Cmd {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]command.Cmd(nil), r.calls...)
}

// Observe makes the Runner call f with each call that takes effect, on the stack
// of who calls. f must not call the Runner.
func (r *Runner) Observe(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observe = f
}

func (r *Runner) observed() {
	if r.observe != nil {
		r.observe()
	}
}

// Step counts an effect that is not a program start (an ioctl, say) as a call,
// so that a kill can fall on it as well. It returns ErrKilled when the effect
// must not happen; done must be called once after the effect.
func (r *Runner) Step() (done func() error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, err := r.spend()
	if err != nil {
		return nil, err
	}
	r.observed()
	return func() error {
		if last {
			return ErrKilled
		}
		return nil
	}, nil
}

// spend takes one call from the budget. last says that the call takes effect but
// its caller is not told.
func (r *Runner) spend() (last bool, err error) {
	if r.killed {
		return false, ErrKilled
	}
	if !r.limited {
		return false, nil
	}
	if r.budget == 0 {
		r.killed = true
		if !r.after {
			return false, ErrKilled
		}
		return true, nil
	}
	r.budget--
	return false, nil
}

// Run implements command.Runner.
func (r *Runner) Run(ctx context.Context, c command.Cmd) (command.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return command.Result{}, err
	}
	last, err := r.spend()
	if err != nil {
		return command.Result{}, err
	}
	r.calls = append(r.calls, c)
	r.observed()
	program, ok := r.programs[c.Name]
	if !ok {
		return command.Result{}, fmt.Errorf("run %s: executable file not found", c)
	}
	out, errOut, code := program(ctx, c.Args, c.Stdin)
	if last {
		return command.Result{}, ErrKilled
	}
	res := command.Result{Stdout: []byte(out), Stderr: []byte(errOut)}
	if code != 0 {
		return res, &command.ExitError{Cmd: c.String(), Code: code, Stderr: errOut}
	}
	return res, nil
}
