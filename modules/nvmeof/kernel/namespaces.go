package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/together"
)

// ensureNamespaces makes the namespaces exact. A namespace is disabled only
// when something must be written that the kernel refuses while it is enabled.
// All are disabled before any is changed, so that two that exchange devices or
// identities are never both enabled with the same.
func (s *session) ensureNamespaces(sub *subsystem, want nvmeof.Subsystem) error {
	wanted := map[uint32]nvmeof.Namespace{}
	for _, ns := range want.Namespaces {
		wanted[ns.NSID] = ns
	}
	have := map[uint32]*namespace{}
	for i := range sub.namespaces {
		ns := &sub.namespaces[i]
		if _, keep := wanted[ns.NSID]; !keep || have[ns.NSID] != nil {
			if err := s.removeNamespace(ns); err != nil {
				return err
			}
			continue
		}
		have[ns.NSID] = ns
	}
	var todo []nvmeof.Namespace
	for _, w := range want.Namespaces {
		if is := have[w.NSID]; is == nil || !is.Enabled || is.Namespace != w {
			todo = append(todo, w)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	free := func() error { return s.exportedElsewhere(want.NQN, todo) }
	if err := s.share(free); err != nil {
		return err
	}
	for _, w := range todo {
		switch is := have[w.NSID]; {
		case is == nil:
			dir := join(sub.dir, "namespaces", strconv.FormatUint(uint64(w.NSID), 10))
			if err := s.mkdir(dir); err != nil {
				return err
			}
			have[w.NSID] = &namespace{dir: dir}
		case is.Enabled:
			if err := s.disable(is); err != nil {
				return err
			}
		}
	}
	// Nobody else takes a device or an identity between the last look and the
	// moment when it can be seen that they are taken.
	err := s.share(func() error {
		if err := free(); err != nil {
			return err
		}
		for _, w := range todo {
			if err := s.writeNamespace(have[w.NSID].dir, w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, w := range todo {
		if err := s.enable(have[w.NSID].dir); err != nil {
			return fmt.Errorf("namespace %d: %w", w.NSID, deviceError(w.DevicePath, err))
		}
	}
	return nil
}

// removeNamespace drains first, unless that was done: rmdir does not always (see
// the package's comment).
func (s *session) removeNamespace(ns *namespace) error {
	if ns.Enabled {
		if err := s.disable(ns); err != nil {
			return err
		}
	}
	return s.rmdir(ns.dir)
}

// writeNamespace gives a disabled namespace its device and identity.
func (s *session) writeNamespace(dir string, w nvmeof.Namespace) error {
	r := reader{t: s.t}
	is := r.namespace(dir)
	if r.err != nil {
		return fmt.Errorf("read namespace %d: %w", w.NSID, r.err)
	}
	// The kernel prints an NGUID with hyphens, as it does a UUID.
	for _, a := range []struct{ attr, from, to string }{
		{"device_path", is.DevicePath, w.DevicePath},
		{"device_uuid", is.UUID.String(), w.UUID.String()},
		{"device_nguid", nvmeof.UUID(is.NGUID).String(), nvmeof.UUID(w.NGUID).String()},
	} {
		if err := s.set(join(dir, a.attr), a.from, a.to); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) enable(dir string) error {
	return s.write(nvmeof.ActionEnable, join(dir, "enable"), "", "1")
}

// exportedElsewhere refuses a device or an identity that another subsystem has:
// the kernel accepts both, and then two owners write one device, or hosts
// silently ignore one of two namespaces with equal identity.
func (s *session) exportedElsewhere(nqn string, todo []nvmeof.Namespace) error {
	names, err := s.t.subsystemNames()
	if err != nil {
		return err
	}
	for _, other := range slices.DeleteFunc(names, func(n string) bool { return n == nqn }) {
		list := join("subsystems", other, "namespaces")
		r := reader{t: s.t}
		for _, name := range r.names(list) {
			ns := r.namespace(join(list, name))
			if r.err != nil {
				break
			}
			if err := together.Exclusive(todo, other, ns.Namespace); err != nil {
				return err
			}
		}
		// A subsystem that vanishes under the look is being removed, and comes to
		// this same look before it gets a device again.
		if r.err != nil && !errors.Is(r.err, fs.ErrNotExist) {
			return fmt.Errorf("read subsystem %s: %w", other, r.err)
		}
	}
	return nil
}
