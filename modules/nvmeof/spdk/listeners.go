package spdk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/together"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// EnsureAll implements nvmeof.Target.
func (t *Target) EnsureAll(ctx context.Context, each time.Duration, want []nvmeof.Subsystem) []error {
	errs := together.Silently(ctx, each, t, want)
	step := func(what func(*session, nvmeof.Subsystem) error) {
		errs = together.Each(len(want), func(i int) error {
			if errs[i] != nil {
				return errs[i]
			}
			_, err := change(ctx, t, want[i].NQN, func(s *session) (struct{}, error) {
				return struct{}{}, what(s, want[i])
			})
			if err != nil {
				err = fmt.Errorf("ensure %s: %w", want[i].NQN, err)
			}
			return err
		})
	}
	step((*session).open)
	step((*session).verify)
	return errs
}

// open makes a subsystem reachable that is right but for its listeners. Between
// the first and the last one, hosts of the last are turned away, so it does no
// more than that.
func (s *session) open(want nvmeof.Subsystem) error {
	sub, err := s.read()
	if err != nil {
		return err
	}
	if sub == nil {
		return fmt.Errorf("open: %w", nvmeof.ErrNotFound)
	}
	return s.ensureListeners(*sub, want)
}

// listenerParams are the parameters of the methods for one listener.
type listenerParams struct {
	NQN     string       `json:"nqn"`
	Address wire.Address `json:"listen_address"`
}

// ensureListeners makes the subsystem reachable on the wanted listeners and on no
// other. Wrong ones go first, because they may hold an address that is wanted.
func (s *session) ensureListeners(sub wire.Subsystem, want nvmeof.Subsystem) error {
	have := map[nvmeof.Listener]bool{}
	for _, a := range sub.Listeners {
		l, ok := port(a).Listener()
		if ok && slices.Contains(want.Listeners, l) {
			have[l] = true
			continue
		}
		if err := s.removeListener(a); err != nil {
			return err
		}
	}
	for _, l := range want.Listeners {
		if have[l] {
			continue
		}
		if err := s.ensureTransport(l.Transport); err != nil {
			return err
		}
		if err := s.addListener(l); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) removeListener(a wire.Address) error {
	return s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionUnlink, Object: s.object(fmt.Sprintf("listener %s %s %s", a.Transport, a.Address, a.Service))},
		method: "nvmf_subsystem_remove_listener",
		params: listenerParams{s.nqn, a},
		done:   func(sub *wire.Subsystem) bool { return sub != nil && !slices.Contains(sub.Listeners, a) },
	})
}

func (s *session) addListener(l nvmeof.Listener) error {
	err := s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionLink, Object: s.object("listener " + l.String())},
		method: "nvmf_subsystem_add_listener",
		params: listenerParams{s.nqn, address(l)},
		done: func(sub *wire.Subsystem) bool {
			return sub != nil && slices.ContainsFunc(sub.Listeners, func(a wire.Address) bool {
				have, ok := port(a).Listener()
				return ok && have == l
			})
		},
	})
	var refused *rpc.Error
	if errors.As(err, &refused) {
		return explain(s.ctx, l, err)
	}
	return err
}

// explain says why SPDK refused a listener, which it does not tell, by trying the
// address itself: SPDK runs on this host.
func explain(ctx context.Context, l nvmeof.Listener, refused error) error {
	var try net.ListenConfig
	probe, err := try.Listen(ctx, "tcp", netip.AddrPortFrom(l.Address, l.Port).String())
	if err == nil {
		probe.Close()
	}
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: %w", nvmeof.ErrAddressNotLocal, refused)
	case errors.Is(err, syscall.EADDRINUSE) && l.Transport == nvmeof.TCP:
		return fmt.Errorf("%w: %w", nvmeof.ErrAddressInUse, refused)
	case l.Transport == nvmeof.RDMA:
		return fmt.Errorf("%w: no rdma device has this address: %w", nvmeof.ErrTransportUnavailable, refused)
	}
	return refused
}

// objectTransports is the name of all transports for their writers.
const objectTransports = "transports"

// ensureTransport makes the transport, once. SPDK ignores parameters of it that it
// does not know, so none are given.
func (s *session) ensureTransport(t nvmeof.Transport) error {
	giveBack, err := s.writer.Also(s.ctx, objectTransports)
	if err != nil {
		return err
	}
	defer giveBack()
	if has, err := s.hasTransport(t); err != nil || has {
		return err
	}
	err = s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionCreate, Object: "transport " + string(t)},
		method: "nvmf_create_transport",
		params: struct {
			Type string `json:"trtype"`
		}{trtype(t)},
		done: func(*wire.Subsystem) bool {
			has, err := s.hasTransport(t)
			return err == nil && has
		},
	})
	var refused *rpc.Error
	if errors.As(err, &refused) {
		return fmt.Errorf("%w: %w", nvmeof.ErrTransportUnavailable, err)
	}
	return err
}

func (s *session) hasTransport(t nvmeof.Transport) (bool, error) {
	all, err := transports(s.ctx, s.t.client)
	return slices.ContainsFunc(all, func(have transport) bool { return strings.EqualFold(have.Type, trtype(t)) }), err
}

// transport is one entry of nvmf_get_transports.
type transport struct {
	Type string `json:"trtype"`
}

func transports(ctx context.Context, client *rpc.Client) ([]transport, error) {
	var all []transport
	err := client.Call(ctx, "nvmf_get_transports", nil, &all)
	return all, err
}
