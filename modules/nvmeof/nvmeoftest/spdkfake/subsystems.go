package spdkfake

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// subsystem is one NVMe subsystem.
type subsystem struct {
	nqn, serial, model   string
	maxNamespaces        uint64
	minCntlid, maxCntlid uint64
	allowAny             bool
	hosts                []string      // the newest first
	listeners            []wireAddress // the newest first
	namespaces           []*namespace  // by NSID
	starting, destroying bool
	// pausing counts the changes that have paused it. A namespace that is removed
	// meanwhile does not wait for its I/O, which then never ends: stuck.
	pausing        int
	stuck          bool
	lastController uint16
}

type namespace struct {
	nsid               uint32
	bdev               *bdev
	uuid, nguid, eui64 string
}

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

const discoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"

func (p *process) subsystem(nqn string) *subsystem {
	if i := slices.IndexFunc(p.subsystems, func(s *subsystem) bool { return s.nqn == nqn }); i >= 0 {
		return p.subsystems[i]
	}
	return nil
}

// usable returns the subsystem if it can be changed, and answers otherwise.
func (x *call) usable(nqn string) *subsystem {
	sub := x.server.process.subsystem(nqn)
	switch {
	case sub == nil:
		x.refuse(badParams)
		return nil
	case sub.starting || sub.destroying:
		x.refuse(internal)
		return nil
	}
	return sub
}

// validNQN is as lenient as SPDK: it looks neither at the month nor at the name.
func validNQN(nqn string) bool {
	rest, ok := strings.CutPrefix(nqn, "nqn.")
	if !ok || len(nqn) > 223 || len(rest) < 9 {
		return false
	}
	domain, name, ok := strings.Cut(rest[8:], ":")
	return ok && name != "" && domain != "" && strings.IndexFunc(domain, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.'
	}) < 0
}

func (sub *subsystem) show(s *Server) any {
	listeners, hosts, spaces := []any{}, []any{}, []any{}
	for _, l := range sub.listeners {
		listeners = append(listeners, l)
	}
	for _, h := range sub.hosts {
		hosts = append(hosts, map[string]string{"nqn": h})
	}
	for _, n := range sub.namespaces {
		shown := map[string]any{"nsid": n.nsid, "bdev_name": n.bdev.name, "name": n.bdev.name, "nguid": n.nguid, "uuid": n.uuid}
		if n.eui64 != "" {
			shown["eui64"] = n.eui64
		}
		spaces = append(spaces, shown)
	}
	out := map[string]any{"nqn": sub.nqn, "subtype": "NVMe", "listen_addresses": listeners, "allow_any_host": sub.allowAny, "hosts": hosts,
		"serial_number": sub.serial, "model_number": sub.model, "max_namespaces": sub.maxNamespaces, "passthrough": false,
		"min_cntlid": sub.minCntlid, "max_cntlid": sub.maxCntlid, "namespaces": spaces}
	if s.atLeast(26, 5) {
		out["dmrsl"], out["wzsl"] = 2097152, 12
	}
	return out
}

func getSubsystems(x *call) {
	var in struct {
		NQN    *string `json:"nqn,omitempty"`
		Target string  `json:"tgt_name,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	if in.NQN != nil {
		if sub := p.subsystem(*in.NQN); sub != nil {
			x.ok([]any{sub.show(x.server)})
		} else {
			x.refuse(errNoDev)
		}
		return
	}
	all := []any{}
	if !p.noDiscovery {
		all = append(all, map[string]any{"nqn": discoveryNQN, "subtype": "Discovery", "listen_addresses": []any{}, "allow_any_host": true, "hosts": []any{}})
	}
	for _, sub := range p.subsystems {
		all = append(all, sub.show(x.server))
	}
	x.ok(all)
}

func createSubsystem(x *call) {
	var in struct {
		NQN           string `json:"nqn"`
		Serial        string `json:"serial_number,omitempty"`
		Model         string `json:"model_number,omitempty"`
		MaxNamespaces uint64 `json:"max_namespaces,omitempty"`
		AllowAny      bool   `json:"allow_any_host,omitempty"`
		ANA           bool   `json:"ana_reporting,omitempty"`
		MinCntlid     uint64 `json:"min_cntlid,omitempty"`
		MaxCntlid     uint64 `json:"max_cntlid,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	sub := &subsystem{nqn: in.NQN, serial: cmp.Or(in.Serial, strings.Repeat("0", 20)), model: cmp.Or(in.Model, "SPDK bdev Controller"),
		maxNamespaces: cmp.Or(in.MaxNamespaces, 32), minCntlid: cmp.Or(in.MinCntlid, 1), maxCntlid: cmp.Or(in.MaxCntlid, 65519),
		allowAny: in.AllowAny, starting: true}
	switch {
	case !validNQN(in.NQN), p.subsystem(in.NQN) != nil:
		x.fail(codeInternal, "Unable to create subsystem "+in.NQN)
	case len(in.Serial) > 20, len(in.Model) > 40:
		x.refuse(badParams)
	case sub.minCntlid > sub.maxCntlid:
		x.fail(codeParams, fmt.Sprintf("Invalid cntlid range [%d-%d]", sub.minCntlid, sub.maxCntlid))
	default:
		p.subsystems = append(p.subsystems, sub)
		slices.SortFunc(p.subsystems, func(a, b *subsystem) int { return strings.Compare(a.nqn, b.nqn) })
		x.next(func() {
			sub.starting = false
			x.ok(true)
		})
	}
}

func deleteSubsystem(x *call) {
	var in struct {
		NQN string `json:"nqn"`
	}
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	sub := p.subsystem(in.NQN)
	switch {
	case in.NQN == discoveryNQN && !p.noDiscovery:
		p.noDiscovery = true
		x.ok(true)
		return
	case sub == nil:
		x.refuse(badParams)
		return
	case sub.destroying:
		x.fail(codeInternal, "Subsystem is already being destroyed.")
		return
	}
	sub.destroying = true
	x.when(func() bool { return !sub.stuck && !x.server.inFlight(sub, 0) }, func() {
		for _, n := range sub.namespaces {
			n.bdev.claim = ""
		}
		for _, h := range x.server.hosts {
			if h.sub == sub {
				h.ended = true
			}
		}
		p.subsystems = slices.DeleteFunc(p.subsystems, func(s *subsystem) bool { return s == sub })
		x.ok(true)
	})
}

func addNamespace(x *call) {
	var in struct {
		NQN       string `json:"nqn"`
		Namespace struct {
			NSID  uint32 `json:"nsid,omitempty"`
			Bdev  string `json:"bdev_name"`
			NGUID string `json:"nguid,omitempty"`
			EUI64 string `json:"eui64,omitempty"`
			UUID  string `json:"uuid,omitempty"`
		} `json:"namespace"`
	}
	if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	if sub == nil {
		return
	}
	x.pausing(sub, func() {
		b, nsid := x.server.process.bdev(in.Namespace.Bdev), in.Namespace.NSID
		for i := uint32(1); nsid == 0 && uint64(i) <= sub.maxNamespaces; i++ {
			if sub.namespace(i) == nil {
				nsid = i
			}
		}
		if b == nil || b.claim != "" || sub.namespace(nsid) != nil || uint64(nsid) > sub.maxNamespaces ||
			!hexDigits(in.Namespace.NGUID, 32) || !hexDigits(in.Namespace.EUI64, 16) || !validUUID(in.Namespace.UUID) {
			x.refuse(badParams)
			return
		}
		b.open(claimExport)
		plain := strings.ToUpper(strings.ReplaceAll(b.uuid, "-", ""))
		sub.namespaces = append(sub.namespaces, &namespace{nsid: nsid, bdev: b, uuid: cmp.Or(in.Namespace.UUID, b.uuid),
			nguid: cmp.Or(strings.ToUpper(in.Namespace.NGUID), plain), eui64: in.Namespace.EUI64})
		slices.SortFunc(sub.namespaces, func(a, b *namespace) int { return cmp.Compare(a.nsid, b.nsid) })
		x.ok(nsid)
	})
}

// pausing makes a change for which the subsystem is paused.
func (x *call) pausing(sub *subsystem, then func()) {
	sub.pausing++
	x.next(func() {
		sub.pausing--
		then()
	})
}

func hexDigits(s string, n int) bool {
	_, err := strconv.ParseUint("0"+s[:min(len(s), 15)], 16, 64)
	return s == "" || len(s) == n && err == nil && !strings.Contains(s, "-")
}

func validUUID(s string) bool {
	return s == "" || len(s) == 36 && strings.Count(s, "-") == 4
}

func (sub *subsystem) namespace(nsid uint32) *namespace {
	if i := slices.IndexFunc(sub.namespaces, func(n *namespace) bool { return n.nsid == nsid }); i >= 0 {
		return sub.namespaces[i]
	}
	return nil
}

func removeNamespace(x *call) {
	var in struct {
		NQN  string `json:"nqn"`
		NSID uint32 `json:"nsid"`
	}
	if !x.decode(&in) {
		return
	}
	sub := x.usable(in.NQN)
	if sub == nil {
		return
	}
	meets := sub.pausing > 0 && x.server.inFlight(sub, in.NSID)
	x.when(func() bool { return meets || !x.server.inFlight(sub, in.NSID) }, func() {
		sub.stuck = sub.stuck || meets
		n := sub.namespace(in.NSID)
		if n == nil {
			x.refuse(badParams)
			return
		}
		n.bdev.claim = ""
		sub.namespaces = slices.DeleteFunc(sub.namespaces, func(o *namespace) bool { return o == n })
		x.ok(true)
	})
}

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
