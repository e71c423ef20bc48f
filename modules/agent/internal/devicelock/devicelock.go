// Package devicelock runs one change of a device at a time, and gives a change
// that hangs in the kernel up without letting another one begin.
package devicelock

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Locks are the locks of the devices of one kind, by their identity. The zero value
// is ready.
type Locks struct {
	kind string

	mu    sync.Mutex
	locks map[string]chan struct{}
}

// New returns Locks that are all free. The kind is how errors call a device, such
// as "drive".
func New(kind string) *Locks { return &Locks{kind: kind} }

// grace is how long Do waits, after ctx has ended, for change to tell what
// stopped it.
const grace = 2 * time.Second

// Do runs change while it holds the lock of the device with this identity. It
// returns soon after ctx has ended even if change hangs in the kernel; the lock is
// then held until change returns, so that a late write can never meet a newer
// change of the same device.
func (l *Locks) Do(ctx context.Context, id string, change func(context.Context) error) error {
	lock := l.of(id)
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%s %q: another change is still running: %w", l.kind, id, context.Cause(ctx))
	}
	done := make(chan error, 1)
	go func() {
		defer func() { <-lock }()
		done <- change(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return fmt.Errorf("%s %q does not answer; it stays locked until it does: %w", l.kind, id, context.Cause(ctx))
	}
}

func (l *Locks) of(id string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock, ok := l.locks[id]
	if !ok {
		if l.locks == nil {
			l.locks = map[string]chan struct{}{}
		}
		lock = make(chan struct{}, 1)
		l.locks[id] = lock
	}
	return lock
}
