// Package turns lets one change at a time have an object.
package turns

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Turns gives each name to one holder at a time. The zero value is ready.
type Turns struct {
	mu   sync.Mutex
	held map[string]*Turn
}

// Turn exists while somebody has the name or waits for it.
type Turn struct {
	token chan struct{}
	users int
	// Step is what the holder is doing, for the messages of those who wait.
	Step atomic.Pointer[Step]
}

// Step is one thing that a holder does.
type Step struct {
	What string
	// Drain tells that the step waits for a device.
	Drain bool
}

// Take waits for the name, until ctx ends; then it answers nvmeof.ErrBusy and
// says what the holder is doing.
func (t *Turns) Take(ctx context.Context, name string) (*Turn, error) {
	x := t.join(name)
	select {
	case <-x.token:
		return x, nil
	case <-ctx.Done():
	}
	what := "an earlier change"
	if s := x.Step.Load(); s != nil {
		what = s.What
	}
	t.leave(name, x)
	return nil, fmt.Errorf("%w: %s is not finished: %w", nvmeof.ErrBusy, what, ctx.Err())
}

// Release lets the next one have the name.
func (t *Turns) Release(name string, x *Turn) {
	x.Step.Store(nil)
	x.token <- struct{}{}
	t.leave(name, x)
}

func (t *Turns) join(name string) *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.held[name]
	if x == nil {
		if t.held == nil {
			t.held = map[string]*Turn{}
		}
		x = &Turn{token: make(chan struct{}, 1)}
		x.token <- struct{}{}
		t.held[name] = x
	}
	x.users++
	return x
}

func (t *Turns) leave(name string, x *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(t.held, name)
	}
}
