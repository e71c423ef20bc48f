package spdkfake

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
