package spdk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/together"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// ensureNamespaces makes the namespaces exact. All that are wrong go before any
// is added, so that two can exchange devices or identities.
func (s *session) ensureNamespaces(sub wire.Subsystem, want nvmeof.Subsystem) error {
	have := map[nvmeof.Namespace]bool{}
	for _, ns := range sub.Namespaces {
		have[namespace(ns)] = true
	}
	todo := slices.DeleteFunc(slices.Clone(want.Namespaces), func(w nvmeof.Namespace) bool { return have[w] })
	for _, w := range todo {
		if w.NSID > sub.MaxNamespaces {
			return fmt.Errorf("%w: namespace %d: the subsystem was made with room for %d; remove it and make it anew", nvmeof.ErrIdentityLocked, w.NSID, sub.MaxNamespaces)
		}
	}
	for _, ns := range sub.Namespaces {
		if !slices.Contains(want.Namespaces, namespace(ns)) {
			if err := s.removeNamespace(ns.NSID); err != nil {
				return err
			}
		}
	}
	if len(todo) == 0 {
		return nil
	}
	return s.addNamespaces(todo)
}

func (s *session) removeNamespace(nsid uint32) error {
	return s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionDelete, Object: s.object(fmt.Sprintf("namespace %d", nsid))},
		method: "nvmf_subsystem_remove_ns",
		params: struct {
			NQN  string `json:"nqn"`
			NSID uint32 `json:"nsid"`
		}{s.nqn, nsid},
		done: func(sub *wire.Subsystem) bool {
			return sub != nil && !slices.ContainsFunc(sub.Namespaces, func(n wire.Namespace) bool { return n.NSID == nsid })
		},
		drains: true,
	})
}

// addNamespaces adds them while nobody deletes their bdevs, or exports these or
// their identities elsewhere between the last look and the adding.
func (s *session) addNamespaces(todo []nvmeof.Namespace) error {
	var objects []string
	for _, w := range todo {
		bdev, ok := BdevOf(w.DevicePath)
		if !ok {
			return fmt.Errorf("namespace %d: %w: %s: SPDK's devices are %sNAME", w.NSID, nvmeof.ErrDeviceNotFound, w.DevicePath, bdevDir)
		}
		objects = append(objects, wire.ObjectBdev(bdev))
	}
	slices.Sort(objects)
	giveBack, err := s.writer.Also(s.ctx, append(objects, wire.ObjectExports)...)
	if err != nil {
		return err
	}
	defer giveBack()
	if err := s.exportedElsewhere(todo); err != nil {
		return err
	}
	for _, w := range todo {
		if err := s.addNamespace(w); err != nil {
			return fmt.Errorf("namespace %d: %w", w.NSID, err)
		}
	}
	return nil
}

func (s *session) addNamespace(w nvmeof.Namespace) error {
	name, _ := BdevOf(w.DevicePath)
	bdev, err := wire.FindBdev(s.ctx, s.t.client, name)
	switch {
	case err != nil:
		return err
	case bdev == nil:
		return fmt.Errorf("%w: no bdev %q", nvmeof.ErrDeviceNotFound, name)
	case bdev.Name != name:
		return &nvmeof.FieldError{Field: "devicePath", Value: w.DevicePath, Rule: "must name the bdev itself, which is " + DevicePath(bdev.Name)}
	case bdev.Claimed:
		return fmt.Errorf("%w: bdev %q is claimed", nvmeof.ErrDeviceInUse, name)
	}
	return s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionEnable, Object: s.object(fmt.Sprintf("namespace %d (%s)", w.NSID, w.DevicePath))},
		method: "nvmf_subsystem_add_ns",
		params: struct {
			NQN       string         `json:"nqn"`
			Namespace wire.Namespace `json:"namespace"`
		}{s.nqn, wire.Namespace{NSID: w.NSID, Bdev: name, NGUID: strings.ToUpper(w.NGUID.String()), UUID: w.UUID.String()}},
		done: func(sub *wire.Subsystem) bool {
			return sub != nil && slices.ContainsFunc(sub.Namespaces, func(n wire.Namespace) bool { return namespace(n) == w })
		},
	})
}

// exportedElsewhere refuses a device or an identity that another subsystem has.
// SPDK refuses the first without saying why, and accepts the second.
func (s *session) exportedElsewhere(todo []nvmeof.Namespace) error {
	all, err := wire.Subsystems(s.ctx, s.t.client)
	if err != nil {
		return err
	}
	for _, other := range all {
		if other.NQN == s.nqn {
			continue
		}
		for _, n := range other.Namespaces {
			if err := together.Exclusive(todo, other.NQN, namespace(n)); err != nil {
				return err
			}
		}
	}
	return nil
}
