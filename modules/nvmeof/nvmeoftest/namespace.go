package nvmeoftest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

type namespace struct {
	nsid    uint32
	path    string
	uuid    [16]byte
	nguid   [16]byte
	enabled *device // nil: disabled
	size    int64   // that hosts see: the device's when it was last looked at
}

func (k *Kernel) makeNamespace(s *subsystem, name string) (*dir, error) {
	nsid, err := strconv.ParseUint(name, 0, 32) // kstrtou32 with base 0: "01" and "0x1" are 1
	if err != nil || strings.ContainsAny(name, "_oObB") || nsid == 0 || nsid == 0xffffffff {
		return nil, syscall.EINVAL
	}
	k.uuids++ // a namespace that nobody pins has another identity each time
	ns := &namespace{nsid: uint32(nsid), uuid: nvmeof.DeriveUUID("random", fmt.Sprint(k.uuids))}
	d := newDir()
	d.object = ns
	d.release = func() { k.drain(ns) }

	d.attrs["device_path"] = attr{
		show: func() string {
			if ns.path == "" {
				return "(null)"
			}
			return ns.path
		},
		store: func(v string) error {
			if ns.enabled != nil {
				return syscall.EBUSY
			}
			if v == "" {
				return syscall.EINVAL
			}
			ns.path = v
			return nil
		},
	}
	d.attrs["device_uuid"] = identityAttr(ns, &ns.uuid, func(v string) ([]byte, error) {
		u, err := nvmeof.ParseUUID(strings.ToLower(v))
		if err != nil && v != (nvmeof.UUID{}).String() {
			return nil, syscall.EINVAL
		}
		return u[:], nil
	})
	d.attrs["device_nguid"] = identityAttr(ns, &ns.nguid, func(v string) ([]byte, error) {
		raw, err := hex.DecodeString(strings.NewReplacer("-", "", ":", "").Replace(v))
		if err != nil || len(raw) < 16 {
			return nil, syscall.EINVAL
		}
		return raw, nil
	})
	d.attrs["enable"] = attr{
		show:  func() string { return boolText(ns.enabled != nil) },
		store: func(v string) error { return k.storeEnable(s, ns, v) },
	}
	d.attrs["revalidate_size"] = attr{store: func(v string) error {
		if on, err := parseBool(v); err != nil || !on || ns.enabled == nil {
			return syscall.EINVAL
		}
		ns.size = ns.enabled.size
		return nil
	}}
	d.attrs["ana_grpid"] = fixedAttr("1")
	d.attrs["buffered_io"] = fixedAttr("0")
	return d, nil
}

func identityAttr(ns *namespace, id *[16]byte, parse func(string) ([]byte, error)) attr {
	return attr{
		show: func() string { return nvmeof.UUID(*id).String() },
		store: func(v string) error {
			if ns.enabled != nil {
				return syscall.EBUSY
			}
			raw, err := parse(v)
			if err != nil {
				return err
			}
			copy(id[:], raw)
			return nil
		},
	}
}

func (k *Kernel) storeEnable(s *subsystem, ns *namespace, v string) error {
	on, err := parseBool(v)
	if err != nil {
		return err
	}
	if !on {
		k.drain(ns)
		return nil
	}
	if ns.enabled != nil {
		return nil
	}
	for _, d := range s.dir.dirs["namespaces"].dirs {
		if other := d.object.(*namespace); other.nsid == ns.nsid && other.enabled != nil {
			return syscall.EBUSY // "1" and "01" are one nsid
		}
	}
	dev, err := k.open(ns.path)
	if err != nil {
		return err
	}
	ns.enabled, ns.size = dev, dev.size
	return nil
}
