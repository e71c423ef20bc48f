package spdkfake

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Host is one controller of a connected host.
type Host struct {
	server   *Server
	sub      *subsystem
	nqn      string
	id       uint16
	queues   int // with the admin queue
	listener wireAddress
	// leaving tells that it is being disconnected: it gets no answers, but what it
	// has in flight still reaches the medium.
	leaving, ended bool
	inFlight       []*command
}

// command is a write on its way to a medium.
type command struct {
	nsid uint32
	bdev *bdev
	data string
}

// Errors of hosts.
var (
	// ErrRefused: the host is not let in.
	ErrRefused = errors.New("connect refused")
	// ErrDisconnected: the host's connection has ended.
	ErrDisconnected = errors.New("disconnected")
	// ErrInvalidNamespace: the subsystem has no such namespace (any more).
	ErrInvalidNamespace = errors.New("invalid namespace")
)

// Connect connects a host to a subsystem through a listener, with one I/O queue.
func (s *Server) Connect(hostNQN, nqn string, l nvmeof.Listener) (*Host, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := wireAddress{Transport: strings.ToUpper(string(l.Transport)), Family: familyOf(l.Address.String()), Address: l.Address.String(), Service: fmt.Sprint(l.Port)}
	sub := s.process.subsystem(nqn)
	if sub == nil || sub.starting || sub.destroying || !slices.Contains(sub.listeners, a) || !sub.allowAny && !slices.Contains(sub.hosts, hostNQN) {
		return nil, fmt.Errorf("%w: %s by %s", ErrRefused, hostNQN, nqn)
	}
	sub.lastController++
	h := &Host{server: s, sub: sub, nqn: hostNQN, id: sub.lastController, queues: 2, listener: a}
	s.hosts = append(s.hosts, h)
	return h, nil
}

// Size is how large the host sees the namespace, in bytes.
func (h *Host) Size(nsid uint32) (int64, error) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	switch n := h.sub.namespace(nsid); {
	case h.leaving, h.ended:
		return 0, ErrDisconnected
	case n == nil:
		return 0, ErrInvalidNamespace
	default:
		return int64(n.bdev.blockSize * n.bdev.numBlocks), nil
	}
}

// Disconnect ends the connection from the host's side.
func (h *Host) Disconnect() {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.server.disconnect(func(o *Host) bool { return o == h })
	h.server.settle()
}

// Submit sends a write, which is in flight until Complete.
func (h *Host) Submit(nsid uint32, data string) error {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	n := h.sub.namespace(nsid)
	switch {
	case h.leaving, h.ended:
		return ErrDisconnected
	case n == nil:
		return ErrInvalidNamespace
	}
	h.inFlight = append(h.inFlight, &command{nsid, n.bdev, data})
	return nil
}

// Write sends a write and waits until it has reached the medium.
func (h *Host) Write(nsid uint32, data string) error {
	if err := h.Submit(nsid, data); err != nil {
		return err
	}
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	last := h.inFlight[len(h.inFlight)-1]
	h.inFlight = h.inFlight[:len(h.inFlight)-1]
	last.land(h)
	return nil
}

func (c *command) land(h *Host) { c.bdev.writes = append(c.bdev.writes, Write{h.nqn, c.data}) }

// Complete lets all writes in flight reach their media, whatever became of those
// who sent them.
func (s *Server) Complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		for _, c := range h.inFlight {
			c.land(h)
		}
		h.inFlight = nil
		h.ended = h.ended || h.leaving
	}
	s.bury()
	s.settle()
}

// disconnect ends controllers, at once or when nothing of theirs is in flight.
func (s *Server) disconnect(which func(*Host) bool) {
	for _, h := range s.hosts {
		if which(h) {
			h.leaving = true
			h.ended = len(h.inFlight) == 0
		}
	}
	s.bury()
}

func (s *Server) bury() { s.hosts = slices.DeleteFunc(s.hosts, func(h *Host) bool { return h.ended }) }

// inFlight tells whether I/O of a namespace has not ended, 0 for any.
func (s *Server) inFlight(sub *subsystem, nsid uint32) bool {
	return slices.ContainsFunc(s.hosts, func(h *Host) bool {
		return h.sub == sub && slices.ContainsFunc(h.inFlight, func(c *command) bool { return nsid == 0 || c.nsid == nsid })
	})
}

// busy tells whether I/O to a bdev has not ended.
func (s *Server) busy(b *bdev) bool {
	return slices.ContainsFunc(s.hosts, func(h *Host) bool {
		return slices.ContainsFunc(h.inFlight, func(c *command) bool { return c.bdev == b })
	})
}

const hostID = "67154032-0672-5d0a-b34f-62086b1c7be1"

func getControllers(x *call) {
	x.ofHosts(func(h *Host) []any {
		queues := h.queues
		if h.leaving {
			queues = 1
		}
		return []any{map[string]any{"cntlid": h.id, "cntrltype": "io", "hostnqn": h.nqn, "hostid": hostID, "num_io_qpairs": queues}}
	})
}

func getQueuePairs(x *call) {
	x.ofHosts(func(h *Host) []any {
		state, first := "enabled", 0
		if h.leaving {
			state, first = "deactivating", 1
		}
		out := []any{}
		for qid := first; qid < h.queues; qid++ {
			peer := wireAddress{h.listener.Transport, h.listener.Family, h.listener.Address, "50000"}
			out = append(out, map[string]any{"cntlid": h.id, "qid": qid, "state": state, "thread": "nvmf_tgt_poll_group_000",
				"hostnqn": h.nqn, "listen_address": h.listener, "peer_address": peer})
		}
		return out
	})
}

func (x *call) ofHosts(show func(*Host) []any) {
	var in struct {
		NQN    string `json:"nqn"`
		Target string `json:"tgt_name,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	if sub == nil {
		return
	}
	all := []any{}
	for _, h := range x.server.hosts {
		if h.sub == sub {
			all = append(all, show(h)...)
		}
	}
	x.ok(all)
}
