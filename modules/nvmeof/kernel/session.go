package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/turns"
)

// session is one change of a subsystem while it has the turn. Every effect goes
// through it: it stops when the context has ended, tells others what it is
// doing, and records what it did.
type session struct {
	t       *Target
	ctx     context.Context
	doing   *turns.Turn
	sharing *turns.Turn // while it changes what the subsystems share
	changes []nvmeof.Change
}

// share runs do as the only change of what the subsystems share.
func (s *session) share(do func() error) error {
	const everything = ""
	common, err := s.t.shared.Take(s.ctx, everything)
	if err != nil {
		return err
	}
	s.sharing = common
	defer func() {
		s.sharing = nil
		s.t.shared.Release(everything, common)
	}()
	return do()
}

// during tells others what is going on while do runs. After an error it is still
// what this call was doing, until it gives its turn back.
func (s *session) during(now turns.Step, do func() error) error {
	s.doing.Step.Store(&now)
	if s.sharing != nil {
		s.sharing.Step.Store(&now)
	}
	err := do()
	if err == nil {
		s.doing.Step.Store(nil)
		if s.sharing != nil {
			s.sharing.Step.Store(nil)
		}
	}
	return err
}

func (s *session) effect(c nvmeof.Change, run func() error) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if err := s.during(turns.Step{What: c.String(), Drain: c.Action == nvmeof.ActionDisable}, run); err != nil {
		return failed(c, err)
	}
	s.changes = append(s.changes, c)
	return nil
}

func (s *session) mkdir(path string) error {
	return s.effect(nvmeof.Change{Action: nvmeof.ActionCreate, Object: path}, func() error { return s.t.fs.Mkdir(path) })
}

func (s *session) rmdir(path string) error {
	return s.effect(nvmeof.Change{Action: nvmeof.ActionDelete, Object: path}, func() error { return s.t.fs.Rmdir(path) })
}

func (s *session) link(target, link string) error {
	return s.effect(nvmeof.Change{Action: nvmeof.ActionLink, Object: link}, func() error { return s.t.fs.Symlink(target, link) })
}

func (s *session) unlink(link string) error {
	return s.effect(nvmeof.Change{Action: nvmeof.ActionUnlink, Object: link}, func() error { return s.t.fs.Remove(link) })
}

func (s *session) write(action nvmeof.Action, path, from, to string) error {
	return s.effect(nvmeof.Change{Action: action, Object: path, From: from, To: to}, func() error {
		return s.t.fs.WriteFile(path, []byte(to))
	})
}

// set writes an attribute unless it has the value already.
func (s *session) set(path, from, to string) error {
	if from == to {
		return nil
	}
	return s.write(nvmeof.ActionSet, path, from, to)
}

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

// failed wraps the kernel's refusal of a change. EBUSY is the same everywhere;
// what other errnos mean depends on the step and is told there.
func failed(c nvmeof.Change, err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%s: %w: %w", c, nvmeof.ErrBusy, bare(err))
	}
	return fmt.Errorf("%s: %w", c, bare(err))
}

// bare takes the path off an error, because the change names it already.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func join(elem ...string) string { return strings.Join(elem, "/") }
