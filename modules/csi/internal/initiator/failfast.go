package initiator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// How long connections may hold up a host that is going down, in seconds. Its
// sum with the keep-alive (5 s by default) and the kernel's timeout for one
// connection attempt (3 s) is far below the 60 s that a reboot may take.
const (
	lastReconnectDelay = 5
	lastFastIOFail     = 5
	lastCtrlLoss       = 10
)

// atMost returns the parameters with their timeouts bounded so that I/O on a
// lost connection fails within seconds. Shorter ones stay.
func (p Params) atMost(delay, fast, loss int) Params {
	bound := func(value *int, never bool, limit int) *int {
		if value == nil || never && *value < 0 || *value > limit {
			return &limit
		}
		return value
	}
	p.ReconnectDelay = bound(p.ReconnectDelay, false, delay)
	p.CtrlLossTimeout = bound(p.CtrlLossTimeout, true, loss)
	p.FastIOFailTimeout = bound(p.FastIOFailTimeout, true, min(fast, *p.CtrlLossTimeout))
	return p
}

// wanted are the parameters that a connection gets now.
func (i *Initiator) wanted(p Params) Params {
	if i.failFast.Load() {
		return p.atMost(lastReconnectDelay, lastFastIOFail, lastCtrlLoss)
	}
	return p
}

// FailFast makes every connection of the host NQN, present and future, give up
// within seconds of losing its target, so that a host that is going down does
// not wait for ever for a filesystem to be unmounted. What is live stays live:
// pods still write back what they have. It returns how many controllers it
// found.
//
// The kernel looks at fast_io_fail_tmo when a connection is lost, at
// ctrl_loss_tmo at every failed attempt. A controller that is reconnecting
// already therefore goes at its next attempt; where that may be too far away, it
// goes now.
func (i *Initiator) FailFast(ctx context.Context, hostNQN string) (int, error) {
	i.failFast.Store(true)
	list, err := i.sysfs.controllers("")
	if err != nil {
		return 0, fmt.Errorf("list controllers: %w", err)
	}
	ours := 0
	results := make(chan error)
	for _, c := range list {
		if c.hostNQN == hostNQN && !c.goingAway() {
			ours++
			go func() { results <- i.giveUpSoon(ctx, c) }()
		}
	}
	var failures []error
	for range ours {
		failures = append(failures, <-results)
	}
	return ours, errors.Join(failures...)
}

func (i *Initiator) giveUpSoon(ctx context.Context, c controller) error {
	var p Params
	for name, field := range map[string]**int{
		"reconnect_delay": &p.ReconnectDelay, "ctrl_loss_tmo": &p.CtrlLossTimeout, "fast_io_fail_tmo": &p.FastIOFailTimeout,
	} {
		text, err := attribute(c.dir, name)
		if err != nil {
			return err
		}
		if n, err := strconv.Atoi(text); err == nil { // else off, or gone
			*field = &n
		}
	}
	if c.state != stateLive && p.ReconnectDelay != nil && *p.ReconnectDelay > 2*lastReconnectDelay {
		return i.set(ctx, c, "delete_controller", "1")
	}
	return i.adjust(ctx, c, p)
}
