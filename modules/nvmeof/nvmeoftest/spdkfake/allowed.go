package spdkfake

import (
	"slices"
	"time"
)

type hostParams struct {
	NQN  string `json:"nqn"`
	Host string `json:"host"`
}

func addHost(x *call) {
	var in struct {
		NQN  string  `json:"nqn"`
		Host string  `json:"host"`
		PSK  *string `json:"psk,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	switch {
	case sub == nil:
	case in.PSK != nil, !validNQN(in.Host), slices.Contains(sub.hosts, in.Host): // the fake has no keys
		x.refuse(internal)
	default:
		sub.hosts = slices.Insert(sub.hosts, 0, in.Host)
		x.ok(true)
	}
}

func removeHost(x *call) {
	var in hostParams
	timeout := x.server.opts.hostTimeout
	if x.server.atLeast(26, 5) {
		var with struct {
			NQN     string  `json:"nqn"`
			Host    string  `json:"host"`
			Timeout *uint64 `json:"timeout_ms,omitempty"`
		}
		if !x.decode(&with) {
			return
		}
		in = hostParams{with.NQN, with.Host}
		if with.Timeout != nil {
			timeout = time.Duration(*with.Timeout) * time.Millisecond
		}
	} else if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	switch {
	case sub == nil:
		return
	case !slices.Contains(sub.hosts, in.Host):
		x.refuse(internal)
		return
	}
	sub.hosts = slices.DeleteFunc(sub.hosts, func(h string) bool { return h == in.Host })
	mine := func(h *Host) bool { return h.sub == sub && h.nqn == in.Host }
	x.server.disconnect(mine)
	gone := func() bool { return !x.server.atLeast(26, 5) || !slices.ContainsFunc(x.server.hosts, mine) }
	w := x.when(gone, func() { x.ok(true) })
	if !gone() {
		x.within(timeout, w, rpcError{codeInternal, "Timeout reached during host removal"})
	}
}

// allowAnyHost disconnects nobody.
func allowAnyHost(x *call) {
	var in struct {
		NQN   string `json:"nqn"`
		Allow bool   `json:"allow_any_host"`
	}
	if !x.decode(&in) {
		return
	}
	if sub := x.usable(in.NQN); sub != nil {
		sub.allowAny = in.Allow
		x.ok(true)
	}
}
