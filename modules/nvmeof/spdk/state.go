package spdk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// state returns what a subsystem is in the terms of nvmeof, but for who is
// connected.
func state(sub wire.Subsystem) nvmeof.State {
	s := nvmeof.State{NQN: sub.NQN, Serial: sub.Serial, Model: sub.Model, AllowAnyHost: sub.AllowAnyHost}
	for _, h := range sub.Hosts {
		s.AllowedHosts = append(s.AllowedHosts, h.NQN)
	}
	slices.Sort(s.AllowedHosts)
	for _, ns := range sub.Namespaces {
		s.Namespaces = append(s.Namespaces, nvmeof.NamespaceState{Namespace: namespace(ns), Enabled: true})
	}
	slices.SortFunc(s.Namespaces, func(a, b nvmeof.NamespaceState) int { return cmp.Compare(a.NSID, b.NSID) })
	for _, a := range sub.Listeners {
		s.Ports = append(s.Ports, port(a))
	}
	slices.SortFunc(s.Ports, func(a, b nvmeof.Port) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return s
}

// namespace returns a namespace as read. An identity that cannot be read is none,
// and differs from any that is wanted.
func namespace(ns wire.Namespace) nvmeof.Namespace {
	n := nvmeof.Namespace{NSID: ns.NSID, DevicePath: DevicePath(ns.Bdev)}
	n.UUID, _ = nvmeof.ParseUUID(strings.ToLower(ns.UUID))
	n.NGUID, _ = nvmeof.ParseNGUID(strings.ToLower(ns.NGUID))
	return n
}

// port returns an address in the kernel's words, which nvmeof.Port has. SPDK has
// no numbers for them.
func port(a wire.Address) nvmeof.Port {
	return nvmeof.Port{Transport: strings.ToLower(a.Transport), Family: strings.ToLower(a.Family), Address: a.Address, Service: a.Service}
}

// address is the inverse of port for what this library would make.
func address(l nvmeof.Listener) wire.Address {
	p := nvmeof.PortOf(0, l)
	family := map[nvmeof.Family]string{nvmeof.IPv4: "IPv4", nvmeof.IPv6: "IPv6"}[l.Family()]
	return wire.Address{Transport: trtype(l.Transport), Family: family, Address: p.Address, Service: p.Service}
}

// trtype is the name that SPDK has for a transport.
func trtype(t nvmeof.Transport) string { return strings.ToUpper(string(t)) }

// withHosts is state with who is connected.
func (t *Target) withHosts(ctx context.Context, sub wire.Subsystem) (nvmeof.State, error) {
	s := state(sub)
	all, err := wire.Controllers(ctx, t.client, sub.NQN)
	if err != nil {
		return s, err
	}
	s.ConnectedHosts = []string{}
	for _, c := range all {
		s.ConnectedHosts = append(s.ConnectedHosts, c.Host)
	}
	slices.Sort(s.ConnectedHosts)
	s.ConnectedHosts = slices.Compact(s.ConnectedHosts)
	return s, nil
}

func notFound(nqn string) error { return fmt.Errorf("%s: %w", nqn, nvmeof.ErrNotFound) }
