package nvmeoftest

import (
	"net/netip"
	"slices"
	"strconv"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

type port struct {
	trtype, adrfam, traddr, trsvcid string
	inlineData, queueSize           string
	enabled                         bool // has at least one subsystem
}

func (k *Kernel) makePort(name string) (*dir, error) {
	if _, err := strconv.ParseUint(name, 10, 16); err != nil {
		return nil, syscall.EINVAL
	}
	p, d := &port{inlineData: "-1", queueSize: "-1"}, newDir()
	d.object = p
	d.attrs["addr_trtype"] = p.attr(&p.trtype, "rdma", "fc", "tcp", "loop", "pci")
	d.attrs["addr_adrfam"] = p.attr(&p.adrfam, "pcie", "ipv4", "ipv6", "ib", "fc", "pci", "loop")
	d.attrs["addr_traddr"] = p.attr(&p.traddr)
	d.attrs["addr_trsvcid"] = p.attr(&p.trsvcid)
	d.attrs["addr_treq"] = fixedAttr("not specified")
	d.attrs["addr_tsas"] = attr{show: func() string {
		return map[string]string{"tcp": "none", "rdma": "connected"}[p.trtype]
	}}
	d.attrs["param_pi_enable"] = fixedAttr("0")
	d.attrs["param_inline_data_size"] = attr{show: func() string { return p.inlineData }}
	d.attrs["param_max_queue_size"] = attr{show: func() string { return p.queueSize }}
	subsystems := newDir()
	subsystems.allow = func(target *dir) error {
		if _, ok := target.object.(*subsystem); !ok {
			return syscall.EINVAL
		}
		for _, linked := range subsystems.links {
			if linked == target {
				return syscall.EEXIST
			}
		}
		if p.enabled {
			return nil
		}
		if err := k.listen(p); err != nil {
			return err
		}
		p.enabled = true
		p.inlineData, p.queueSize = "16384", "1024"
		if p.trtype == string(nvmeof.RDMA) {
			p.inlineData, p.queueSize = "4096", "128"
		}
		return nil
	}
	subsystems.drop = func(target *dir) {
		k.disconnect(func(c *connection) bool { return c.port == p && c.sub.dir == target })
		p.enabled = len(subsystems.links) > 0
	}
	referrals, ana := newDir(), newDir()
	referrals.make = func(string) (*dir, error) { return newDir(), nil }
	group := newDir()
	group.attrs["ana_state"] = fixedAttr("optimized")
	ana.with("1", group)
	return d.with("subsystems", subsystems).with("referrals", referrals).with("ana_groups", ana), nil
}

// attr is an address attribute: locked while the port serves, and, if words are
// given, one of them.
func (p *port) attr(field *string, words ...string) attr {
	return attr{
		show: func() string { return *field },
		store: func(v string) error {
			if p.enabled {
				return syscall.EACCES
			}
			if len(words) > 0 && !slices.Contains(words, v) || len(v) > 255 {
				return syscall.EINVAL
			}
			*field = v
			return nil
		},
	}
}

func (p *port) listener() (nvmeof.Listener, bool) {
	addr, err := netip.ParseAddr(p.traddr)
	if err != nil || addr.Is4() != (p.adrfam == "ipv4") || addr.Is6() != (p.adrfam == "ipv6") {
		return nvmeof.Listener{}, false
	}
	service, err := strconv.ParseUint(p.trsvcid, 10, 16)
	if err != nil {
		return nvmeof.Listener{}, false
	}
	return nvmeof.Listener{Transport: nvmeof.Transport(p.trtype), Address: addr, Port: uint16(service)}, true
}

// listen answers what binding the port's address answers.
func (k *Kernel) listen(p *port) error {
	l, ok := p.listener()
	if !k.transports[l.Transport] || !ok {
		return syscall.EINVAL
	}
	if l.Transport == nvmeof.RDMA && !k.rdmaDevice {
		return syscall.ENODEV
	}
	if k.addresses != nil && !k.addresses[l.Address] && !l.Address.IsUnspecified() {
		return syscall.EADDRNOTAVAIL
	}
	for other := range k.occupied {
		if collide(l, other) {
			return syscall.EADDRINUSE
		}
	}
	for _, d := range k.root.dirs["ports"].dirs {
		other := d.object.(*port)
		if bound, ok := other.listener(); ok && other.enabled && collide(l, bound) {
			return syscall.EADDRINUSE
		}
	}
	return nil
}

func collide(a, b nvmeof.Listener) bool {
	return a.Transport == b.Transport && a.Port == b.Port &&
		(a.Address == b.Address || a.Address.IsUnspecified() || b.Address.IsUnspecified())
}
