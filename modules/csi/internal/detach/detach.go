// Package detach runs calls into the kernel that nothing can interrupt, where
// a deadline can abandon them.
//
// A write to /dev/nvme-fabrics, an umount of a device without paths or a read
// from it may sit in the kernel for minutes and ignores signals. The caller
// must answer its RPC in time, no other volume may wait behind it, and the call
// must not be made a second time while the first still runs (known fault BM5).
package detach

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Group runs at most one call per key at a time. The zero value is ready.
type Group struct {
	mu    sync.Mutex
	calls map[string]*call
}

type call struct {
	done  chan struct{}
	value any
	err   error
}

// Do runs f, or joins the call with the same key that still runs, and returns
// its error. When ctx ends first, the call is left running and the error wraps
// the context's.
func (g *Group) Do(ctx context.Context, key string, f func() error) error {
	_, err := Join(ctx, g, key, func() (any, error) { return nil, f() })
	return err
}

// Join is Group.Do for a function with a value. One key is used with one type.
func Join[T any](ctx context.Context, g *Group, key string, f func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var zero T
		return zero, fmt.Errorf("%s: not begun: %w", key, err)
	}
	c, _ := g.start(key, func() (any, error) { return f() })
	return wait[T](ctx, key, c)
}

func wait[T any](ctx context.Context, key string, c *call) (T, error) {
	var zero T
	select {
	case <-c.done:
		value, _ := c.value.(T)
		return value, c.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: still running in the kernel: %w", key, ctx.Err())
	}
}

// DoWithin is Do for calls of which only so many may run at a time: it waits
// for a slot as long as ctx allows, and the call gives the slot back when it
// returns, abandoned or not.
func (g *Group) DoWithin(ctx context.Context, slots *semaphore.Weighted, key string, f func() error) error {
	if err := slots.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%s: not begun: %w", key, err)
	}
	c := g.startWithin(slots, key, f)
	_, err := wait[any](ctx, key, c)
	return err
}

// StartWithin is Start for such calls; without a free slot it does nothing.
func (g *Group) StartWithin(slots *semaphore.Weighted, key string, f func() error) {
	if slots.TryAcquire(1) {
		g.startWithin(slots, key, f)
	}
}

// startWithin starts or joins a call; its caller has a slot.
func (g *Group) startWithin(slots *semaphore.Weighted, key string, f func() error) *call {
	c, started := g.start(key, func() (any, error) {
		defer slots.Release(1)
		return nil, f()
	})
	if !started {
		slots.Release(1)
	}
	return c
}

// Start runs f unless a call with the same key runs already, and waits for
// neither.
func (g *Group) Start(key string, f func() error) {
	g.start(key, func() (any, error) { return nil, f() })
}

func (g *Group) start(key string, f func() (any, error)) (c *call, started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if running, found := g.calls[key]; found {
		return running, false
	}
	c = &call{done: make(chan struct{})}
	if g.calls == nil {
		g.calls = map[string]*call{}
	}
	g.calls[key] = c
	go func() {
		c.value, c.err = f()
		g.mu.Lock()
		delete(g.calls, key)
		g.mu.Unlock()
		close(c.done)
	}()
	return c, true
}

// Running lists the keys of the calls that have not returned and that match.
func (g *Group) Running(match func(key string) bool) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []string
	for key := range g.calls {
		if match(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Value runs f and returns its value. When ctx ends first, f is left running
// and discard gets the value that nobody waits for any more; it may be nil.
func Value[T any](ctx context.Context, what string, f func() (T, error), discard func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("%s: not begun: %w", what, err)
	}
	results := make(chan result)
	go func() {
		v, err := f()
		select {
		case results <- result{v, err}:
		case <-ctx.Done():
			if err == nil && discard != nil {
				discard(v)
			}
		}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%s: still running in the kernel: %w", what, ctx.Err())
	}
}
