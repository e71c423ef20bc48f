package spdkfake

import (
	"slices"
	"strings"
)

// Drive is a local NVMe drive, which SPDK can attach by its PCI address. No real one
// was at hand: the answers are those in SPDK's source (module/bdev/nvme, v26.05).
type Drive struct {
	Address, Serial, Model string
	Bytes                  uint64
	// Namespaces are the NSIDs; nil is 1 alone.
	Namespaces []uint64
	// Bound tells whether the drive is bound to a driver that gives it to SPDK; nil:
	// always.
	Bound func() bool
}

// pcie is a drive and what is on it, which outlive the process.
type pcie struct {
	Drive
	medium *medium // of namespace 1
}

// controller is a drive that is attached.
type controller struct {
	name  string
	drive *pcie
}

// AddDrive puts a drive into the machine.
func (s *Server) AddDrive(d Drive) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Namespaces == nil {
		d.Namespaces = []uint64{1}
	}
	m := &medium{size: d.Bytes}
	s.files[d.Address] = m // so that a crash is told to it
	s.drives = append(s.drives, &pcie{d, m})
}

// Stored tells whether there is a store on the drive, for who looks at it without
// SPDK.
func (s *Server) Stored(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.files[address]
	return m != nil && m.store != nil
}

// Lvol is a logical volume on a drive.
type Lvol struct {
	UUID, Name, Store string
	Bytes             uint64
}

// Lvols are the logical volumes on all drives, attached or not.
func (s *Server) Lvols() []Lvol {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Lvol
	for _, d := range s.drives {
		if st := d.medium.store; st != nil {
			for _, l := range st.lvols {
				out = append(out, Lvol{l.uuid, l.name, st.name, l.clusters * st.cluster})
			}
		}
	}
	return out
}

// LoseLvol takes a logical volume off its drive, as a store that was not loaded whole
// has lost one.
func (s *Server) LoseLvol(uuid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.drives {
		if st := d.medium.store; st != nil {
			st.lvols = slices.DeleteFunc(st.lvols, func(l *lvol) bool { return l.uuid == uuid })
		}
	}
}

// WipeDrive takes away what is on the drive, behind the back of SPDK.
func (s *Server) WipeDrive(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[address].store = nil
}

func attachController(x *call) {
	var in struct {
		Name      string `json:"name"`
		Transport string `json:"trtype"`
		Address   string `json:"traddr"`
	}
	if !x.decode(&in) {
		return
	}
	s, p := x.server, x.server.process
	i := slices.IndexFunc(s.drives, func(d *pcie) bool { return d.Address == in.Address })
	switch {
	case slices.ContainsFunc(p.controllers, func(c *controller) bool { return c.name == in.Name }):
		x.refuse(rpcError{-114, "Operation already in progress"})
		return
	case slices.ContainsFunc(p.controllers, func(c *controller) bool { return c.drive.Address == in.Address }):
		x.refuse(errExists)
		return
	case !strings.EqualFold(in.Transport, "PCIe"):
		x.refuse(rpcError{-5, "Input/output error"}) // nobody serves there
		return
	case i < 0 || s.drives[i].Bound != nil && !s.drives[i].Bound():
		x.refuse(errNoDev)
		return
	}
	c := &controller{in.Name, s.drives[i]}
	p.controllers = append(p.controllers, c)
	var names []string
	for _, nsid := range c.drive.Namespaces {
		b := &bdev{name: c.bdev(nsid), product: "NVMe disk", uuid: s.newUUID(), blockSize: 512, numBlocks: c.drive.Bytes / 512, controller: c, nsid: nsid}
		if nsid == 1 {
			b.medium = c.drive.medium
		}
		names = append(names, b.name)
		p.register(b)
	}
	x.ok(names)
}

func (c *controller) bdev(nsid uint64) string { return c.name + "n" + string(rune('0'+nsid%10)) }

func detachController(x *call) {
	var in nameParams
	if !x.decode(&in) {
		return
	}
	p := x.server.process
	i := slices.IndexFunc(p.controllers, func(c *controller) bool { return c.name == in.Name })
	if i < 0 {
		x.refuse(errNoDev)
		return
	}
	// Whatever is on it vanishes with it.
	x.next(func() {
		for _, b := range slices.Clone(p.bdevs) {
			if b.controller != nil && b.controller.name == in.Name {
				p.unregister(b)
			}
		}
		p.controllers = slices.DeleteFunc(p.controllers, func(c *controller) bool { return c.name == in.Name })
		x.ok(true)
	})
}

func getNVMeControllers(x *call) {
	var in struct {
		Name *string `json:"name,omitempty"`
	}
	if !x.decode(&in) {
		return
	}
	all := []any{}
	for _, c := range x.server.process.controllers {
		if in.Name == nil || *in.Name == c.name {
			all = append(all, map[string]any{"name": c.name, "ctrlrs": []any{map[string]any{
				"state": "enabled", "trid": map[string]any{"trtype": "PCIe", "traddr": c.drive.Address}, "cntlid": 0,
				"host": map[string]any{"nqn": "", "addr": "", "svcid": "", "no_shn_notification": false},
			}}})
		}
	}
	if in.Name != nil && len(all) == 0 {
		x.refuse(errNoDev)
		return
	}
	x.ok(all)
}

func (b *bdev) showNVMe() []any {
	d := b.controller.drive
	return []any{map[string]any{
		"pci_address": d.Address, "trid": map[string]any{"trtype": "PCIe", "traddr": d.Address},
		"ctrlr_data": map[string]any{"cntlid": 0, "vendor_id": "0x1b36", "model_number": d.Model, "serial_number": d.Serial, "firmware_revision": "1.0"},
		"vs":         map[string]any{"nvme_version": "1.4"}, "ns_data": map[string]any{"id": b.nsid, "can_share": false},
	}}
}
