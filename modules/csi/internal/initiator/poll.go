package initiator

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sysfs has no events (inotify does not see its changes), so its state is
// read again after a short, growing, jittered pause.
const (
	firstPause = 2 * time.Millisecond
	maxPause   = 50 * time.Millisecond
)

type pacer struct{ next time.Duration }

// wait pauses and returns the context's error when it ends first.
func (p *pacer) wait(ctx context.Context) error {
	p.next = min(max(2*p.next, firstPause), maxPause)
	timer := time.NewTimer(p.next/2 + rand.N(p.next/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
