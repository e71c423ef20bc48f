package spdk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

const (
	firstPause   = 5 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// Revoke implements nvmeof.Target: the host is taken off the list, and the
// target's controllers are read until none is the host's. Other hosts notice
// nothing.
func (t *Target) Revoke(ctx context.Context, nqn, hostNQN string) (nvmeof.Evidence, error) {
	if _, err := nvmeof.ParseNQN(hostNQN); err != nil {
		return nvmeof.Evidence{}, err
	}
	return change(ctx, t, nqn, func(s *session) (nvmeof.Evidence, error) {
		e := nvmeof.Evidence{NQN: nqn, Hosts: []string{hostNQN}}
		err := s.revoke(&e)
		if err != nil {
			err = fmt.Errorf("revoke %s on %s: %w", hostNQN, nqn, err)
		}
		return e, err
	})
}

func (s *session) revoke(e *nvmeof.Evidence) error {
	sub, err := s.read()
	if err != nil {
		return err
	}
	if sub == nil {
		e.SubsystemAbsent, e.CompletedAt = true, s.t.now()
		return nil
	}
	if sub.AllowAnyHost {
		if err := s.forbidAnyHost(); err != nil {
			return err
		}
	}
	if err := s.fence(e); err != nil {
		return err
	}
	return s.observe(e)
}

// fence takes the hosts of e off the list and waits until none has a controller.
// There is no event for that; they are read.
//
// "None" is read twice: a host that was connecting when it was taken off the list
// has its controller on the list of controllers by the second time.
func (s *session) fence(e *nvmeof.Evidence) error {
	var connected []string // as last read
	err := s.disconnect(e, &connected)
	if err != nil && s.ctx.Err() != nil && len(connected) > 0 {
		return fmt.Errorf("%w: host %s is off the list and still has a controller: %w", nvmeof.ErrDrainTimeout, connected[0], err)
	}
	return err
}

func (s *session) disconnect(e *nvmeof.Evidence, connected *[]string) error {
	none := 0 // how often none was read in a row
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		sub, err := s.read()
		if err != nil {
			return err
		}
		if sub == nil {
			return fmt.Errorf("%w: the subsystem is gone (someone else changes the target)", nvmeof.ErrBusy)
		}
		for _, host := range e.Hosts {
			if listed(sub, host) {
				if err := s.removeHost(host); err != nil {
					return err
				}
			}
		}
		now, err := s.connected(e.Hosts)
		if err != nil {
			return err
		}
		*connected = now
		if none++; len(now) > 0 {
			none = 0
			if err := s.evict(now, pause); err != nil {
				return err
			}
		}
		if none == 2 {
			e.DisconnectedAt = s.t.now()
			return nil
		}
		if err := s.wait(pause); err != nil {
			return err
		}
	}
}

// connected returns those of the hosts that have a controller.
func (s *session) connected(hosts []string) ([]string, error) {
	all, err := wire.Controllers(s.ctx, s.t.client, s.nqn)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, c := range all {
		if slices.Contains(hosts, c.Host) && !slices.Contains(out, c.Host) {
			out = append(out, c.Host)
		}
	}
	return out, nil
}

// evict disconnects hosts that are off the list and still can send commands, as
// one that was admitted by allow_any_host can: SPDK disconnects only whom it takes
// off the list. Queues that are being torn down need no help, and right after
// their host was taken off the list all may look enabled.
func (s *session) evict(hosts []string, pause time.Duration) error {
	if pause < 4*firstPause {
		return nil
	}
	queues, err := wire.QueuePairs(s.ctx, s.t.client, s.nqn)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		if !slices.ContainsFunc(queues, func(q wire.QueuePair) bool { return q.Host == host && q.State == wire.QueueEnabled }) {
			continue
		}
		if err := errors.Join(s.addHost(host), s.removeHost(host)); err != nil {
			return err
		}
	}
	return nil
}

// observe reads the allow-list back and completes the evidence.
func (s *session) observe(e *nvmeof.Evidence) error {
	sub, err := s.read()
	if err != nil {
		return fmt.Errorf("read the allow-list back: %w", err)
	}
	if sub == nil {
		return fmt.Errorf("%w: the subsystem is gone (someone else changes the target)", nvmeof.ErrBusy)
	}
	e.AllowedHosts = []string{}
	for _, h := range sub.Hosts {
		e.AllowedHosts = append(e.AllowedHosts, h.NQN)
		if slices.Contains(e.Hosts, h.NQN) {
			return fmt.Errorf("%w: host %s is on the allow-list again", nvmeof.ErrBusy, h.NQN)
		}
	}
	slices.Sort(e.AllowedHosts)
	if sub.AllowAnyHost {
		return fmt.Errorf("%w: any host is allowed again", nvmeof.ErrBusy)
	}
	e.CompletedAt = s.t.now()
	return nil
}
