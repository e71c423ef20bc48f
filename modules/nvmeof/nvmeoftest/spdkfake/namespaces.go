package spdkfake

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

type namespace struct {
	nsid               uint32
	bdev               *bdev
	uuid, nguid, eui64 string
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
