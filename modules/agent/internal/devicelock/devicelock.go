package carve

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Locks runs one change of a drive at a time.
type Locks struct {
	mu    sync.Mutex
	drive map[string]chan struct{}
}

// NewLocks returns Locks that are all free.
func NewLocks() *Locks { return &Locks{drive: map[string]chan struct{}{}} }

// grace is how long Do waits, after ctx has ended, for change to tell what
// stopped it.
const grace = 2 * time.Second

// Do runs change while it holds the lock of the drive with this serial number. It
// returns soon after ctx has ended even if change hangs in the kernel; the lock is
// then held until change returns, so that a late write can never meet a newer
// change of the same drive.
func (l *Locks) Do(ctx context.Context, serial string, change func(context.Context) error) error {
	lock := l.of(serial)
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("drive %q: another change is still running: %w", serial, context.Cause(ctx))
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
		return fmt.Errorf("drive %q does not answer; the drive stays locked until it does: %w", serial, context.Cause(ctx))
	}
}

func (l *Locks) of(serial string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	lock, ok := l.drive[serial]
	if !ok {
		lock = make(chan struct{}, 1)
		l.drive[serial] = lock
	}
	return lock
}
