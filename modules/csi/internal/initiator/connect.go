package initiator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Connect makes the subsystem reachable through at least one of its portals,
// and through the others if they answer within the grace. A live controller
// keeps its connection, gets the parameters (adjust), and one that is reconnecting is waited for, so that a repeated
// call makes nothing twice (known faults ST2, ST5).
func (i *Initiator) Connect(ctx context.Context, t Target) error {
	if err := t.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(t.Portals))
	for _, p := range t.Portals {
		go func() { results <- i.connectPortal(ctx, t, p) }()
	}
	var failures []error
	var grace <-chan time.Time // set once a portal is live
	for range t.Portals {
		select {
		case err := <-results:
			switch {
			case errors.Is(err, ErrForeign):
				return err
			case err != nil:
				failures = append(failures, err)
			case grace == nil:
				timer := time.NewTimer(i.pathGrace)
				defer timer.Stop()
				grace = timer.C
			}
		case <-grace:
			i.warn(fmt.Errorf("connect %s: a portal did not answer within %s of another", t.NQN, i.pathGrace))
			return nil
		}
	}
	if grace == nil {
		return errors.Join(failures...)
	}
	for _, err := range failures {
		i.warn(err)
	}
	return nil
}

// rewriteEvery is the least time between two writes for one portal: when a
// controller goes away as soon as it is made, or is there and not to be seen.
const rewriteEvery = time.Second

// connectPortal returns when the controller at this portal is live.
func (i *Initiator) connectPortal(ctx context.Context, t Target, p Portal) error {
	var pace pacer
	var nextWrite time.Time
	for {
		c, found, err := i.controllerAt(t, p)
		if err != nil {
			return err
		}
		if found && c.state == stateLive {
			if err := i.adjust(ctx, c, t.Params); err != nil {
				i.warn(fmt.Errorf("connect %s at %s: %w", t.NQN, p, err))
			}
			return nil
		}
		if now := time.Now(); !found && !now.Before(nextWrite) {
			nextWrite = now.Add(rewriteEvery)
			if err := i.create(ctx, t, p); err != nil {
				return err
			}
			continue
		}
		if err := pace.wait(ctx); err != nil {
			seen := "no controller appeared"
			if found {
				seen = "controller " + c.String()
			}
			return fmt.Errorf("connect %s at %s: %w: %s: %w", t.NQN, p, ErrUnreachable, seen, err)
		}
	}
}

// controllerAt looks for a controller that is or may become live.
func (i *Initiator) controllerAt(t Target, p Portal) (controller, bool, error) {
	list, err := i.sysfs.controllers(t.NQN)
	if err != nil {
		return controller{}, false, fmt.Errorf("list controllers of %s: %w", t.NQN, err)
	}
	for _, c := range list {
		// An empty state is a controller that vanished as it was read.
		if c.goingAway() || c.state == "" {
			continue
		}
		if c.hostNQN != t.HostNQN {
			// Access and fencing count on our host name (design.md §6).
			return controller{}, false, fmt.Errorf("%w: controller %s of %s has host NQN %q, ours is %q",
				ErrForeign, c.name, t.NQN, c.hostNQN, t.HostNQN)
		}
		if c.at(p) {
			return c, true, nil
		}
	}
	return controller{}, false, nil
}

// connectKey names the write for one portal. It starts with the NQN, so that
// Disconnect can find the writes that may yet make a controller.
func connectKey(nqn string, p Portal) string { return "connect " + nqn + " at " + p.String() }

// create writes the connect options, or joins the write for this portal that
// is still in flight. That there is a controller already is no error.
func (i *Initiator) create(ctx context.Context, t Target, p Portal) error {
	err := i.calls.DoWithin(ctx, i.connects, connectKey(t.NQN, p), i.write(t, p))
	if err == nil || errors.Is(err, unix.EALREADY) {
		return nil // look it up
	}
	return connectError(t.NQN, p, err)
}

// write is one write of connect options.
func (i *Initiator) write(t Target, p Portal) func() error {
	return func() error {
		t.Params = i.wanted(t.Params)
		instance, err := i.kernel.Connect(connectOptions(t, p, i.cpus))
		if err != nil {
			return err
		}
		return i.verifyInstance(instance, t.NQN)
	}
}

// verifyInstance checks that the kernel's new controller belongs to what was
// asked for; one that is gone again already is for the caller to notice.
func (i *Initiator) verifyInstance(instance int, nqn string) error {
	name := fmt.Sprintf("nvme%d", instance)
	got, err := attribute(filepath.Join(i.sysfs.classDir("nvme"), name), "subsysnqn")
	if err != nil {
		return err
	}
	if got != "" && got != nqn {
		return fmt.Errorf("%w: new controller %s has subsystem %q", ErrChanged, name, got)
	}
	return nil
}

// connecting lists the writes in flight that may yet make a controller of nqn.
func (i *Initiator) connecting(nqn string) []string {
	return i.calls.Running(func(key string) bool { return strings.HasPrefix(key, "connect "+nqn+" at ") })
}
