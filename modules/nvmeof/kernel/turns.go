package kernel

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/distort-io/distort/modules/nvmeof"
)

// turns gives each name to one holder at a time. The zero value is ready.
type turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

// turn exists while somebody has the name or waits for it.
type turn struct {
	token chan struct{}
	users int
	// step is what the holder is doing, for the messages of those who wait.
	step atomic.Pointer[step]
}

type step struct {
	what  string
	drain bool
}

// take waits for the name, until ctx ends.
func (t *turns) take(ctx context.Context, name string) (*turn, error) {
	x := t.join(name)
	select {
	case <-x.token:
		return x, nil
	case <-ctx.Done():
	}
	what := "an earlier change"
	if s := x.step.Load(); s != nil {
		what = s.what
	}
	t.leave(name, x)
	return nil, fmt.Errorf("%w: %s is not finished: %w", nvmeof.ErrBusy, what, ctx.Err())
}

func (t *turns) release(name string, x *turn) {
	x.step.Store(nil)
	x.token <- struct{}{}
	t.leave(name, x)
}

func (t *turns) join(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.held[name]
	if x == nil {
		if t.held == nil {
			t.held = map[string]*turn{}
		}
		x = &turn{token: make(chan struct{}, 1)}
		x.token <- struct{}{}
		t.held[name] = x
	}
	x.users++
	return x
}

func (t *turns) leave(name string, x *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(t.held, name)
	}
}

// probes asks devices for an answer, each by one goroutine at a time: a device
// that never answers holds one thread and no more. The zero value is ready.
type probes struct {
	mu      sync.Mutex
	running map[string]chan struct{}
}

// start returns a channel that is closed when the device has answered, be it
// with an error.
func (p *probes) start(fs FS, path string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered, ok := p.running[path]; ok {
		return answered
	}
	answered := make(chan struct{})
	if p.running == nil {
		p.running = map[string]chan struct{}{}
	}
	p.running[path] = answered
	go func() {
		fs.AwaitDevice(path)
		p.mu.Lock()
		delete(p.running, path)
		p.mu.Unlock()
		close(answered)
	}()
	return answered
}
