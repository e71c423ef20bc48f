package kernel

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/distort-io/distort/modules/nvmeof"
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
	if err := s.exportedElsewhere(want.NQN, todo); err != nil {
		return err
	}
	for _, w := range todo {
		if is := have[w.NSID]; is != nil && is.Enabled {
			if err := s.disable(is); err != nil {
				return err
			}
		}
	}
	for _, w := range todo {
		if err := s.writeNamespace(sub, w, have); err != nil {
			return err
		}
	}
	for _, w := range todo {
		if err := s.enable(*have[w.NSID]); err != nil {
			return fmt.Errorf("namespace %d: %w", w.NSID, deviceError(w.DevicePath, err))
		}
	}
	return nil
}

// removeNamespace drains first: rmdir alone would drain too, but with the
// directory locked, so that nobody could even read it.
func (s *session) removeNamespace(ns *namespace) error {
	if err := s.disable(ns); err != nil {
		return err
	}
	return s.rmdir(ns.dir)
}

func (s *session) writeNamespace(sub *subsystem, w nvmeof.Namespace, have map[uint32]*namespace) error {
	is := have[w.NSID]
	if is == nil {
		dir := join(sub.dir, "namespaces", strconv.FormatUint(uint64(w.NSID), 10))
		if err := s.mkdir(dir); err != nil {
			return err
		}
		r := reader{t: s.t}
		made := r.namespace(dir)
		if r.err != nil {
			return fmt.Errorf("read namespace %d: %w", w.NSID, r.err)
		}
		is = &made
		have[w.NSID] = is
	}
	if err := s.set(join(is.dir, "device_path"), is.DevicePath, w.DevicePath); err != nil {
		return err
	}
	if err := s.set(join(is.dir, "device_uuid"), is.UUID.String(), w.UUID.String()); err != nil {
		return err
	}
	// The kernel prints an NGUID with hyphens, as it does a UUID.
	return s.set(join(is.dir, "device_nguid"), nvmeof.UUID(is.NGUID).String(), nvmeof.UUID(w.NGUID).String())
}

func (s *session) enable(ns namespace) error {
	return s.write(nvmeof.ActionEnable, join(ns.dir, "enable"), "", "1")
}

// exportedElsewhere refuses a device or an identity that another subsystem has:
// the kernel accepts both, and then two owners write one device, or hosts
// silently ignore one of two namespaces with equal identity.
func (s *session) exportedElsewhere(nqn string, todo []nvmeof.Namespace) error {
	names, err := s.t.subsystemNames()
	if err != nil {
		return err
	}
	r := reader{t: s.t}
	for _, other := range slices.DeleteFunc(names, func(n string) bool { return n == nqn }) {
		list := join("subsystems", other, "namespaces")
		for _, name := range r.names(list) {
			ns := r.namespace(join(list, name))
			for _, w := range todo {
				what := ""
				switch {
				case ns.DevicePath == w.DevicePath:
					what = "device " + w.DevicePath
				case ns.UUID == w.UUID:
					what = "uuid " + w.UUID.String()
				case ns.NGUID == w.NGUID:
					what = "nguid " + w.NGUID.String()
				}
				if what != "" && r.err == nil {
					return fmt.Errorf("namespace %d: %w: %s is in subsystem %s, namespace %d", w.NSID, nvmeof.ErrDeviceInUse, what, other, ns.NSID)
				}
			}
		}
	}
	if r.err != nil {
		return fmt.Errorf("read the other subsystems: %w", r.err)
	}
	return nil
}
