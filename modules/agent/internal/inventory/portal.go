package inventory

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Fabric is the network below a portal.
type Fabric string

// Fabrics, named as in the API.
const (
	FabricRoCEv2     Fabric = "RoCEv2"
	FabricInfiniBand Fabric = "InfiniBand"
	FabricTCP        Fabric = "TCP"
)

// Portal is an address that a target on this node can listen on now.
type Portal struct {
	Fabric    Fabric
	Address   netip.Addr // IPv4, or global or unique-local IPv6
	Interface string     // network interface with the address
	Device    string     // RDMA device; "" for TCP
	Port      int        // port of the RDMA device, from 1; 0 for TCP
	SpeedMbps int64      // link speed in Mbit/s; 0 when unknown
	NUMANode  int        // of the network card; -1 when unknown
}

// PortalScan is what one look at the network saw.
type PortalScan struct {
	// Portals by fabric, device, port and address: InfiniBand and RoCE first.
	Portals  []Portal
	Problems []Problem
	// Complete says that every RDMA port and interface could be read.
	Complete bool
}

// Portals reads the addresses for targets: every active RDMA port with a usable
// address, and TCP as configured.
func (r *Reader) Portals(ctx context.Context) PortalScan {
	s := &portalScan{PortalScan{Complete: true}}
	r.scanRDMA(ctx, s)
	r.scanTCP(s)
	slices.SortFunc(s.Portals, comparePortals)
	s.Portals = slices.CompactFunc(s.Portals, func(a, b Portal) bool { return a.Fabric == b.Fabric && a.Address == b.Address })
	return s.PortalScan
}

type portalScan struct{ PortalScan }

func (s *portalScan) problem(source Source, subject, format string, args ...any) {
	s.Problems = append(s.Problems, Problem{Source: source, Subject: subject, Message: fmt.Sprintf(format, args...)})
}

func (s *portalScan) degrade(source Source, subject, format string, args ...any) {
	s.Complete = false
	s.problem(source, subject, format, args...)
}

func comparePortals(a, b Portal) int {
	if c := strings.Compare(string(a.Fabric), string(b.Fabric)); c != 0 {
		return c
	}
	if c := a.Address.Compare(b.Address); c != 0 {
		return c
	}
	return strings.Compare(a.Device, b.Device)
}

// scanTCP adds the configured interface's usable addresses, or those of the
// configured addresses that this host has.
func (r *Reader) scanTCP(s *portalScan) {
	if name := r.tcp.iface; name != "" {
		addrs, up, err := r.addrs.OfInterface(name)
		switch {
		case err != nil:
			s.degrade(SourceAddresses, name, "%v", err)
		case !up:
			s.problem(SourceAddresses, name, "interface is down")
		default:
			n := len(s.Portals)
			for _, a := range addrs {
				if usable(a) == nil {
					s.Portals = append(s.Portals, r.tcpPortal(a, name))
				}
			}
			if len(s.Portals) == n {
				s.problem(SourceAddresses, name, "interface has no usable address")
			}
		}
		return
	}
	for _, a := range r.tcp.addrs {
		name, err := r.addrs.Owner(a)
		switch {
		case err != nil:
			s.degrade(SourceAddresses, a.String(), "%v", err)
		case name == "":
			s.problem(SourceAddresses, a.String(), "no interface of this host has the address")
		default:
			s.Portals = append(s.Portals, r.tcpPortal(a, name))
		}
	}
}

func (r *Reader) tcpPortal(a netip.Addr, iface string) Portal {
	p := Portal{Fabric: FabricTCP, Address: a, Interface: iface, NUMANode: -1}
	// Virtual interfaces have no speed: the read fails or gives -1.
	if n, err := readInt(r.sys("class", "net", iface, "speed")); err == nil && n > 0 {
		p.SpeedMbps = n
	}
	if n, err := readInt(r.sys("class", "net", iface, "device", "numa_node")); err == nil && n >= 0 {
		p.NUMANode = int(n)
	}
	return p
}
