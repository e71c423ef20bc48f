package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/turns"
)

// takeDown removes a subsystem in the order of the fence (see the package's
// comment). Every prefix of it is a subsystem that has a disabled namespace, or
// none: that is the mark of a fence that was not finished, see unfinished.
func (s *session) takeDown(sub *subsystem) ([]nvmeof.Drain, error) {
	drained, err := s.drain(sub)
	if err != nil {
		return nil, err
	}
	if err := s.share(func() error { return s.detach(sub) }); err != nil {
		return nil, err
	}
	for i := range sub.namespaces {
		if err := s.removeNamespace(&sub.namespaces[i]); err != nil {
			return nil, err
		}
	}
	if err := s.rmdir(sub.dir); err != nil {
		return nil, err
	}
	return drained, s.absent(sub.NQN)
}

// unfinished tells whether an earlier call may have died between the drain and
// the removal, so that hosts may still be connected whom nobody admits. A
// subsystem that is being made looks the same, and making it again does no harm.
func (sub *subsystem) unfinished() bool {
	return len(sub.namespaces) == 0 ||
		slices.ContainsFunc(sub.namespaces, func(ns namespace) bool { return !ns.Enabled })
}

// drain disables every namespace. It writes also where "enable" reads 0: that
// is so from the moment a drain begins, and only the write waits for its end.
func (s *session) drain(sub *subsystem) ([]nvmeof.Drain, error) {
	drained := []nvmeof.Drain{}
	for i := range sub.namespaces {
		ns := &sub.namespaces[i]
		d := nvmeof.Drain{NSID: ns.NSID, DevicePath: ns.DevicePath, StartedAt: s.t.now()}
		if err := s.disable(ns); err != nil {
			return nil, err
		}
		d.FinishedAt = s.t.now()
		drained = append(drained, d)
	}
	return drained, nil
}

// disable drains one namespace and reads back that it is disabled.
func (s *session) disable(ns *namespace) error {
	enable := join(ns.dir, "enable")
	if err := s.awaitDevice(ns.DevicePath, enable); err != nil {
		return err
	}
	if err := s.write(nvmeof.ActionDisable, enable, "", "0"); err != nil {
		return err
	}
	r := reader{t: s.t}
	if v := r.attr(enable); r.err != nil || v != "0" {
		return errors.Join(fmt.Errorf("%w: %s reads %q after 0 was written", nvmeof.ErrBusy, enable, v), r.err)
	}
	ns.Enabled = false
	return nil
}

// awaitDevice waits until the device has answered a read. While a namespace
// drains, the kernel lets nobody change any subsystem nor connect to one, so a
// drain is only begun on a device that answers.
func (s *session) awaitDevice(path, enable string) error {
	if path == "" {
		return nil
	}
	now := turns.Step{What: fmt.Sprintf("%s %s (device %s does not answer a read, so the drain was not begun)", nvmeof.ActionDisable, enable, path), Drain: true}
	return s.during(now, func() error {
		select {
		case <-s.t.probes.start(s.t.fs, path):
			return nil
		case <-s.ctx.Done():
			return abandoned(&now, s.ctx.Err())
		}
	})
}

// detach takes the subsystem off its ports, so that nobody finds it any more,
// and all hosts off its list.
func (s *session) detach(sub *subsystem) error {
	ports, err := s.t.readPorts()
	if err != nil {
		return err
	}
	for _, p := range ports {
		if link, linked := p.linkOf(sub.NQN); linked {
			if err := s.unlink(join(p.dir, "subsystems", link)); err != nil {
				return err
			}
		}
	}
	for name := range sub.hostLinks {
		if err := s.unlink(join(sub.dir, "allowed_hosts", name)); err != nil {
			return err
		}
	}
	return nil
}

// absent reads back that there is no such subsystem.
func (s *session) absent(nqn string) error {
	names, err := s.t.subsystemNames()
	if err != nil {
		return err
	}
	if slices.Contains(names, nqn) {
		return fmt.Errorf("%w: subsystem is there again (someone else changes the target)", nvmeof.ErrBusy)
	}
	return nil
}

// makeSubsystem makes the subsystem's directory and reads what the kernel put
// into it.
//
// A kernel with nvmet's debugfs refuses a name with EEXIST as long as a removed
// subsystem of that name still has a controller. They end on their own, and
// there is no event for it.
func (s *session) makeSubsystem(nqn string) (*subsystem, error) {
	dir := join("subsystems", nqn)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := s.mkdir(dir)
		if err == nil {
			return s.t.readSubsystem(nqn, nil)
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		now := turns.Step{What: "make " + dir + " (the controllers of the removed subsystem have not ended yet)"}
		if err := s.during(now, func() error { return s.wait(pause) }); err != nil {
			return nil, abandoned(&now, err)
		}
	}
}

const (
	firstPause   = 5 * time.Millisecond
	longestPause = 250 * time.Millisecond
)
