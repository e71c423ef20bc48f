package spdkfake

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

type wireAddress struct {
	Transport string `json:"trtype"`
	Family    string `json:"adrfam,omitempty"`
	Address   string `json:"traddr"`
	Service   string `json:"trsvcid,omitempty"`
}

func familyOf(traddr string) string {
	if strings.Contains(traddr, ":") {
		return "IPv6"
	}
	return "IPv4"
}

type listenerParams struct {
	NQN     string      `json:"nqn"`
	Address wireAddress `json:"listen_address"`
}

func (a wireAddress) normal() wireAddress {
	a.Transport = strings.ToUpper(a.Transport)
	switch strings.ToLower(a.Family) {
	case "ipv6":
		a.Family = "IPv6"
	default:
		a.Family = "IPv4"
	}
	return a
}

func addListener(x *call) {
	var in listenerParams
	if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	if sub == nil {
		return
	}
	x.pausing(sub, func() {
		a := in.Address.normal()
		if !x.server.canListen(a) || slices.Contains(sub.listeners, a) {
			x.refuse(badParams)
			return
		}
		sub.listeners = slices.Insert(sub.listeners, 0, a)
		x.ok(true)
	})
}

func (s *Server) canListen(a wireAddress) bool {
	ip, err := netip.ParseAddr(a.Address)
	port, portErr := strconv.ParseUint(a.Service, 10, 16)
	local := s.opts.addresses == nil || slices.Contains(s.opts.addresses, a.Address) || err == nil && ip.IsUnspecified()
	return slices.Contains(s.process.transports, a.Transport) && err == nil && portErr == nil && port > 0 && local &&
		familyOf(a.Address) == a.Family && !s.opts.occupied[a]
}

func removeListener(x *call) {
	var in listenerParams
	if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	if sub == nil {
		return
	}
	a := in.Address.normal()
	if !slices.Contains(sub.listeners, a) {
		x.refuse(badParams)
		return
	}
	x.next(func() {
		sub.listeners = slices.DeleteFunc(sub.listeners, func(l wireAddress) bool { return l == a })
		x.server.disconnect(func(h *Host) bool { return h.sub == sub && h.listener == a })
		x.ok(true)
	})
}

func getListeners(x *call) {
	var in struct {
		NQN string `json:"nqn"`
	}
	if !x.decode(&in) {
		return
	}
	if sub := x.usable(in.NQN); sub != nil {
		all := []any{}
		for _, l := range sub.listeners {
			all = append(all, map[string]any{"address": l})
		}
		x.ok(all)
	}
}

// createTransport ignores parameters that it does not know.
func createTransport(x *call) {
	var in struct {
		Type string `json:"trtype"`
	}
	x.params = only(x.params, "trtype")
	if !x.decode(&in) {
		return
	}
	p, name := x.server.process, strings.ToUpper(in.Type)
	switch {
	case !slices.Contains(x.server.opts.transports, name):
		x.fail(codeParams, "Invalid transport type '"+in.Type+"'")
	case slices.Contains(p.transports, name):
		x.fail(codeInternal, "Transport type '"+name+"' already exists")
	default:
		p.transports = append(p.transports, name)
		x.ok(true)
	}
}

func getTransports(x *call) {
	var in struct {
		Type *string `json:"trtype,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	all := []any{}
	for _, name := range x.server.process.transports {
		if in.Type == nil || *in.Type == name {
			all = append(all, map[string]any{"trtype": name, "max_queue_depth": 128, "max_io_qpairs_per_ctrlr": 127, "in_capsule_data_size": 4096,
				"max_io_size": 131072, "max_aq_depth": 128, "iobuf_small_cache_size": 4294967295, "iobuf_large_cache_size": 4294967295,
				"dif_insert_or_strip": false, "zcopy": false, "c2h_success": true, "sock_priority": 0, "abort_timeout_sec": 1, "ack_timeout": 0,
				"data_wr_pool_size": 0, "disable_command_passthru": false, "kas": 100, "min_kato": 10000})
		}
	}
	if in.Type != nil && len(all) == 0 {
		x.refuse(errNoDev)
		return
	}
	x.ok(all)
}
