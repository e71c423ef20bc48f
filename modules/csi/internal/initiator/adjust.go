package initiator

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
)

// parameter is one connection parameter as an attribute of a controller shows
// it. The kernel lets some of them be changed while the controller lives.
type parameter struct {
	attribute string
	want      string // as the kernel shows it
	write     string // what sets it; empty for what only a new controller can have
}

// parameters are what a controller must show to have p. What p leaves to the
// kernel is not among them.
func (p Params) parameters() []parameter {
	or := func(value *int, fallback int) int {
		if value == nil {
			return fallback
		}
		return *value
	}
	delay := or(p.ReconnectDelay, defaultReconnectDelay)
	loss := or(p.CtrlLossTimeout, defaultCtrlLossTimeout)
	fast := or(p.FastIOFailTimeout, defaultFastIOFail)
	list := []parameter{
		// The kernel turns ctrl_loss_tmo into a number of attempts when it is
		// written, and shows attempts times delay: the delay goes first.
		{"reconnect_delay", strconv.Itoa(delay), strconv.Itoa(delay)},
		{"ctrl_loss_tmo", orOff((loss+delay-1)/delay*delay, loss), strconv.Itoa(loss)},
		{"fast_io_fail_tmo", orOff(fast, fast), strconv.Itoa(fast)},
	}
	if p.KeepAliveTimeout != nil {
		list = append(list, parameter{attribute: "kato", want: strconv.Itoa(*p.KeepAliveTimeout)})
	}
	if p.IOQueues != nil { // the attribute counts the admin queue too
		list = append(list, parameter{attribute: "queue_count", want: strconv.Itoa(*p.IOQueues + 1)})
	}
	if p.QueueSize != nil { // the attribute counts from zero
		list = append(list, parameter{attribute: "sqsize", want: strconv.Itoa(*p.QueueSize - 1)})
	}
	return list
}

// orOff is how the kernel shows a timeout that may be off.
func orOff(shown, asked int) string {
	if asked < 0 {
		return "off"
	}
	return strconv.Itoa(shown)
}

// adjust gives a controller the parameters that can be changed while it lives,
// and reads all of them back. ErrParameters names those that differ, with what
// was asked and what is: a target may grant fewer or shorter queues, and a
// controller that was made for other parameters keeps its keep-alive.
func (i *Initiator) adjust(ctx context.Context, c controller, p Params) error {
	var failures []error
	for _, want := range i.wanted(p).parameters() {
		got, err := attribute(c.dir, want.attribute)
		if err != nil {
			return err
		}
		if got == "" { // it vanished, or the kernel is older than the attribute
			continue
		}
		if got != want.want && want.write != "" {
			if err := i.set(ctx, c, want.attribute, want.write); err != nil {
				failures = append(failures, err)
			}
			if got, err = attribute(c.dir, want.attribute); err != nil {
				return err
			}
		}
		if got != want.want {
			failures = append(failures, fmt.Errorf("%w: controller %s has %s %s, asked for %s", ErrParameters, c.name, want.attribute, got, want.want))
		}
	}
	return errors.Join(failures...)
}

func (i *Initiator) set(ctx context.Context, c controller, attribute, value string) error {
	path := filepath.Join(c.dir, attribute)
	err := i.calls.Do(ctx, "set "+path+" to "+value, func() error { return i.kernel.WriteAttribute(path, value) })
	if err != nil && !vanished(err) {
		return fmt.Errorf("set %s of controller %s to %s: %w", attribute, c.name, value, err)
	}
	return nil
}

// Maintain brings a connected subsystem closer to its target, without waiting
// for the network: a portal without a controller gets a connect in the
// background, unless one is in flight or too many are, and controllers get their
// parameters. A subsystem without any controller is left alone: what was
// mounted from it is dead and must be staged again.
func (i *Initiator) Maintain(ctx context.Context, t Target) error {
	if err := t.Validate(); err != nil {
		return err
	}
	var missing []Portal
	var failures []error
	for _, p := range t.Portals {
		c, found, err := i.controllerAt(t, p)
		switch {
		case err != nil:
			return err
		case found:
			failures = append(failures, i.adjust(ctx, c, t.Params))
		default:
			missing = append(missing, p)
		}
	}
	if len(missing) == len(t.Portals) {
		return nil
	}
	for _, p := range missing {
		i.calls.StartWithin(i.connects, connectKey(t.NQN, p), i.write(t, p))
	}
	return errors.Join(failures...)
}
