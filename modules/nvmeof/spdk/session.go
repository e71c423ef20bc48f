package spdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// session is one change of a subsystem while it has the turn. Every effect goes
// through it and is recorded.
type session struct {
	t       *Target
	ctx     context.Context
	nqn     string
	writer  *rpc.Change
	changes []nvmeof.Change
}

// read reads the subsystem; nil if there is none.
func (s *session) read() (*wire.Subsystem, error) {
	return wire.FindSubsystem(s.ctx, s.t.client, s.nqn)
}

// effect is one call that changes the subsystem.
type effect struct {
	change nvmeof.Change
	method string
	params any
	// done tells from the subsystem as read after an error, nil if there is none,
	// whether the effect is there all the same.
	done func(*wire.Subsystem) bool
	// drains tells that the call waits for I/O in flight.
	drains bool
}

// do makes the effect. An error of SPDK's says little, and a lost answer nothing:
// the state says whether it is there.
func (s *session) do(e effect) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	err := s.writer.Call(s.ctx, e.method, e.params, nil)
	if err != nil && !s.there(e) {
		return s.failed(e, err)
	}
	s.changes = append(s.changes, e.change)
	return nil
}

func (s *session) there(e effect) bool {
	sub, err := s.read()
	return err == nil && e.done(sub)
}

// failed says what went wrong in the terms that callers branch on.
func (s *session) failed(e effect, err error) error {
	if e.drains && errors.Is(err, rpc.ErrNoAnswer) && (errors.Is(err, context.DeadlineExceeded) || s.ctx.Err() != nil) {
		err = fmt.Errorf("%w: %w", nvmeof.ErrDrainTimeout, err)
	}
	return fmt.Errorf("%s: %w", e.change, err)
}

// object is the name of a part of the subsystem in a Change.
func (s *session) object(part string) string { return s.nqn + " " + part }

// wait waits, bounded by the context.
func (s *session) wait(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
