package kernel

import (
	"context"
	"fmt"
	"slices"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Revoke implements nvmeof.Target: the subsystem is drained and removed with all
// its controllers, and a new one is made in its place without the host.
func (t *Target) Revoke(ctx context.Context, nqn, hostNQN string) (nvmeof.Evidence, error) {
	for _, name := range []string{nqn, hostNQN} {
		if _, err := nvmeof.ParseNQN(name); err != nil {
			return nvmeof.Evidence{}, err
		}
	}
	return change(ctx, t, nqn, func(s *session) (nvmeof.Evidence, error) {
		e := nvmeof.Evidence{NQN: nqn, Hosts: []string{hostNQN}}
		err := s.revoke(hostNQN, &e)
		if err != nil {
			err = fmt.Errorf("revoke %s on %s: %w", hostNQN, nqn, err)
		}
		return e, err
	})
}

func (s *session) revoke(hostNQN string, e *nvmeof.Evidence) error {
	old, _, err := s.t.load(e.NQN)
	if err != nil {
		return err
	}
	if old == nil {
		e.SubsystemAbsent, e.CompletedAt = true, s.t.now()
		return s.share(func() error { return s.forgetHost(hostNQN) })
	}
	if old.passthru {
		return fmt.Errorf("%w: subsystem passes a whole controller through, which cannot be drained", nvmeof.ErrUnsupported)
	}
	before := slices.Clone(old.namespaces)
	if e.Drained, err = s.takeDown(old); err != nil {
		return err
	}
	e.RemovedAt = s.t.now()
	old.namespaces = before
	if e.LeftDisabled, err = s.putBack(old, hostNQN); err != nil {
		return err
	}
	return s.observe(e)
}

// putBack makes a subsystem that was removed again, as it was but for the host.
// It answers which namespaces it left disabled: a device that went away cannot
// be enabled and cannot be written either, so the fence stands, and Ensure will
// name the device.
func (s *session) putBack(old *subsystem, without string) (leftDisabled []uint32, err error) {
	sub, err := s.makeSubsystem(old.NQN)
	if err != nil {
		return nil, err
	}
	for _, a := range []struct{ attr, from, to string }{
		{"attr_serial", sub.Serial, old.Serial}, {"attr_model", sub.Model, old.Model},
	} {
		if err := s.set(join(sub.dir, a.attr), a.from, a.to); err != nil {
			return nil, err
		}
	}
	for _, was := range old.namespaces {
		if err := s.mkdir(was.dir); err != nil {
			return nil, err
		}
		if err := s.share(func() error {
			if err := s.exportedElsewhere(old.NQN, []nvmeof.Namespace{was.Namespace}); err != nil {
				return err
			}
			return s.writeNamespace(was.dir, was.Namespace)
		}); err != nil {
			return nil, err
		}
		if !was.Enabled || s.enable(was.dir) != nil {
			leftDisabled = append(leftDisabled, was.NSID)
		}
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
	}
	hosts := slices.DeleteFunc(slices.Clone(old.AllowedHosts), func(h string) bool { return h == without })
	return leftDisabled, s.share(func() error {
		if err := s.admit(sub, hosts); err != nil {
			return err
		}
		if err := s.serveAgain(old); err != nil {
			return err
		}
		return s.forgetHost(without)
	})
}

// serveAgain serves on the ports of a subsystem that was removed. One that served
// nobody else may be gone since.
func (s *session) serveAgain(old *subsystem) error {
	ports, err := s.t.readPorts()
	if err != nil {
		return err
	}
	for _, was := range old.Ports {
		if l, ok := was.Listener(); ok {
			err = s.listen(&ports, old.NQN, l)
		} else if i := slices.IndexFunc(ports, func(p port) bool { return p.ID == was.ID }); i >= 0 {
			err = s.serve(&ports[i], old.NQN)
		} else {
			err = fmt.Errorf("%w: port %d is gone (someone else changes the target)", nvmeof.ErrBusy, was.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// observe reads back what a fence left, and completes its evidence.
func (s *session) observe(e *nvmeof.Evidence) error {
	r := reader{t: s.t}
	dir := join("subsystems", e.NQN)
	anyHost := r.attr(join(dir, "attr_allow_any_host"))
	links := r.links(join(dir, "allowed_hosts"))
	if r.err != nil {
		return fmt.Errorf("read the allow-list back: %w", r.err)
	}
	e.AllowedHosts = []string{}
	for _, host := range links {
		e.AllowedHosts = append(e.AllowedHosts, host)
		if slices.Contains(e.Hosts, host) {
			return fmt.Errorf("%w: host %s is on the allow-list again", nvmeof.ErrBusy, host)
		}
	}
	slices.Sort(e.AllowedHosts)
	if anyHost != "0" {
		return fmt.Errorf("%w: attr_allow_any_host is %q in a new subsystem", nvmeof.ErrBusy, anyHost)
	}
	e.CompletedAt = s.t.now()
	return nil
}
