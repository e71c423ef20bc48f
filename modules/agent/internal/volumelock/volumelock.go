// Package volumelock serialises what is done to one volume. Two reconcilers
// change the export of a volume, one for its slice and one for the hosts that may
// reach it; whoever holds the volume's lock reads the cache inside it, so that an
// older reading can never undo a newer one (design.md §6).
package volumelock

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Locks is a set of locks, one for each volume. The zero value is ready to use.
type Locks struct {
	mu   sync.Mutex
	held map[types.UID]*entry
}

// entry exists while somebody holds the lock or waits for it.
type entry struct {
	token chan struct{}
	users int
}

// Lock waits until the volume's lock is free or ctx ends. The caller calls unlock
// exactly once.
func (l *Locks) Lock(ctx context.Context, volume types.UID) (unlock func(), err error) {
	e := l.join(volume)
	select {
	case <-e.token:
		return func() {
			e.token <- struct{}{}
			l.leave(volume, e)
		}, nil
	case <-ctx.Done():
		l.leave(volume, e)
		return nil, fmt.Errorf("wait for the lock of volume %s: %w", volume, context.Cause(ctx))
	}
}

func (l *Locks) join(volume types.UID) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[volume]
	if e == nil {
		if l.held == nil {
			l.held = map[types.UID]*entry{}
		}
		e = &entry{token: make(chan struct{}, 1)}
		e.token <- struct{}{}
		l.held[volume] = e
	}
	e.users++
	return e
}

func (l *Locks) leave(volume types.UID, e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(l.held, volume)
	}
}
