package nvmeoftest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

type subsystem struct {
	dir        *dir
	anyHost    bool
	serial     string
	model      string
	qidMax     int
	discovered bool
}

type host struct{ key string }

func (k *Kernel) newRoot() *dir {
	root := newDir()
	root.attrs["discovery_nqn"] = fixedAttr(nvmeof.DiscoveryNQN)
	hosts := newDir()
	hosts.make = func(string) (*dir, error) {
		h, d := &host{}, newDir()
		d.object = h
		d.attrs["dhchap_key"] = attr{
			show:  func() string { return h.key },
			store: func(v string) error { h.key = v; return nil },
		}
		d.attrs["dhchap_ctrl_key"] = fixedAttr("")
		d.attrs["dhchap_hash"] = fixedAttr("hmac(sha256)")
		d.attrs["dhchap_dhgroup"] = fixedAttr("null")
		return d, nil
	}
	subsystems := newDir()
	subsystems.make = k.makeSubsystem
	ports := newDir()
	ports.make = k.makePort
	return root.with("hosts", hosts).with("subsystems", subsystems).with("ports", ports)
}

// fixedAttr is an attribute whose stores this model does not follow.
func fixedAttr(value string) attr { return attr{show: func() string { return value }} }

func (k *Kernel) makeSubsystem(name string) (*dir, error) {
	if name == nvmeof.DiscoveryNQN {
		return nil, syscall.EINVAL
	}
	// The directory in debugfs goes with the last controller of the subsystem.
	if k.debugfs && slices.ContainsFunc(k.connections, func(c *connection) bool { return c.sub.dir.name == name }) {
		return nil, syscall.EEXIST
	}
	d := newDir()
	k.uuids++
	s := &subsystem{dir: d, qidMax: 128, model: "Linux", serial: nvmeof.DeriveSerial(fmt.Sprint(k.uuids))}
	d.object = s

	d.attrs["attr_allow_any_host"] = attr{show: func() string { return boolText(s.anyHost) }, store: s.storeAnyHost}
	d.attrs["attr_serial"] = attr{
		show:  func() string { return fmt.Sprintf("%-20s", s.serial) },
		store: func(v string) error { return s.storeText(&s.serial, v, 20) },
	}
	d.attrs["attr_model"] = attr{
		show:  func() string { return s.model },
		store: func(v string) error { return s.storeText(&s.model, v, 40) },
	}
	d.attrs["attr_qid_max"] = attr{
		show: func() string { return strconv.Itoa(s.qidMax) },
		store: func(v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 || n > 128 {
				return syscall.EINVAL
			}
			s.qidMax = n
			k.disconnect(func(c *connection) bool { return c.sub == s })
			return nil
		},
	}
	for name, value := range map[string]string{"attr_cntlid_min": "1", "attr_cntlid_max": "65519", "attr_firmware": "6.12.95+",
		"attr_ieee_oui": "0x000000", "attr_pi_enable": "0", "attr_version": "1.3"} {
		d.attrs[name] = fixedAttr(value)
	}

	hosts := newDir()
	hosts.allow = func(target *dir) error {
		if _, ok := target.object.(*host); !ok || s.anyHost {
			return syscall.EINVAL
		}
		for _, linked := range hosts.links {
			if linked == target {
				return syscall.EEXIST
			}
		}
		return nil
	}
	// Taking a host off the list ends none of its controllers (measured).
	hosts.drop = func(*dir) {}
	namespaces := newDir()
	namespaces.make = func(name string) (*dir, error) { return k.makeNamespace(s, name) }
	passthru := newDir()
	for name, value := range map[string]string{"device_path": "(null)", "enable": "0", "admin_timeout": "0", "io_timeout": "0", "clear_ids": "0"} {
		passthru.attrs[name] = fixedAttr(value)
	}
	d.release = func() { k.disconnect(func(c *connection) bool { return c.sub == s }) }
	return d.with("allowed_hosts", hosts).with("namespaces", namespaces).with("passthru", passthru), nil
}

func (s *subsystem) allows(hostNQN string) bool {
	if s.anyHost {
		return true
	}
	for _, linked := range s.dir.dirs["allowed_hosts"].links {
		if linked.name == hostNQN {
			return true
		}
	}
	return false
}

func (s *subsystem) storeAnyHost(v string) error {
	on, err := parseBool(v)
	if err != nil {
		return err
	}
	if on && len(s.dir.dirs["allowed_hosts"].links) > 0 {
		return syscall.EINVAL
	}
	s.anyHost = on
	return nil
}

func (s *subsystem) storeText(field *string, v string, limit int) error {
	if s.discovered || v == "" || len(v) > limit || strings.IndexFunc(v, func(r rune) bool { return r < 0x20 || r > 0x7e }) >= 0 {
		return syscall.EINVAL
	}
	*field = v
	return nil
}

func boolText(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// parseBool reads what the kernel's kstrtobool reads.
func parseBool(v string) (bool, error) {
	switch {
	case v == "":
	case strings.ContainsRune("1yYtT", rune(v[0])), strings.EqualFold(v, "on"):
		return true, nil
	case strings.ContainsRune("0nNfF", rune(v[0])), strings.EqualFold(v, "off"):
		return false, nil
	}
	return false, syscall.EINVAL
}
