package inventory

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var (
	rdmaName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	portName = regexp.MustCompile(`^[1-9][0-9]{0,2}$`)
)

// scanRDMA adds the addresses of all active RDMA ports.
func (r *Reader) scanRDMA(ctx context.Context, s *portalScan) {
	devices, err := os.ReadDir(r.sys("class", "infiniband"))
	if errors.Is(err, fs.ErrNotExist) {
		return // no RDMA in this host
	}
	if err != nil {
		s.degrade(SourceRDMA, "class/infiniband", "%v", err)
		return
	}
	for _, d := range devices {
		if ctx.Err() != nil {
			s.degrade(SourceRDMA, d.Name(), "scan stopped: %v", ctx.Err())
			return
		}
		if !rdmaName.MatchString(d.Name()) {
			s.problem(SourceRDMA, d.Name(), "device name must match %s", rdmaName)
			continue
		}
		ports, err := os.ReadDir(r.sys("class", "infiniband", d.Name(), "ports"))
		if err != nil {
			s.degrade(SourceRDMA, d.Name(), "ports cannot be listed: %v", err)
			continue
		}
		for _, p := range ports {
			if portName.MatchString(p.Name()) {
				r.scanPort(s, d.Name(), p.Name())
			}
		}
	}
}

// scanPort adds the portals of one port, or the reason why it has none.
func (r *Reader) scanPort(s *portalScan, device, port string) {
	subject := device + "/" + port
	dir := r.sys("class", "infiniband", device, "ports", port)
	state, err := readAttr(dir, "state")
	if err != nil {
		s.degrade(SourceRDMA, subject, "state cannot be read: %v", err)
		return
	}
	if _, name, _ := strings.Cut(state, ": "); name != "ACTIVE" {
		s.problem(SourceRDMA, subject, "port is %q, not ACTIVE", state)
		return
	}
	number, _ := strconv.Atoi(port) // portName has checked it
	template := Portal{Device: device, Port: number, NUMANode: -1}
	if rate, err := readAttr(dir, "rate"); err == nil {
		template.SpeedMbps = parseRate(rate)
	}
	if n, err := readInt(r.sys("class", "infiniband", device, "device", "numa_node")); err == nil && n >= 0 {
		template.NUMANode = int(n)
	}
	layer, err := readAttr(dir, "link_layer")
	if err != nil {
		s.degrade(SourceRDMA, subject, "link layer cannot be read: %v", err)
		return
	}
	before := len(s.Portals)
	switch layer {
	case "Ethernet":
		template.Fabric = FabricRoCEv2
		r.addRoCE(s, subject, dir, template)
	case "InfiniBand":
		template.Fabric = FabricInfiniBand
		r.addIPoIB(s, subject, template)
	default:
		s.problem(SourceRDMA, subject, "link layer %q is neither Ethernet nor InfiniBand", layer)
		return
	}
	if len(s.Portals) == before {
		s.problem(SourceRDMA, subject, "port is active but has no usable address")
	}
}

// maxEmptySlots ends the walk through a port's GID table. Software devices have
// 1024 slots, of which a few at the front are used; an address that went away
// leaves a hole.
const maxEmptySlots = 32

// addRoCE adds the addresses in the port's GID table that are RoCE v2 and that
// the slot's network interface has: a connection from another address would not
// find its way through the table.
func (r *Reader) addRoCE(s *portalScan, subject, dir string, template Portal) {
	owned := map[string]map[netip.Addr]bool{}
	for i, empty := 0, 0; empty < maxEmptySlots; i++ {
		slot := strconv.Itoa(i)
		kind, err := readAttr(dir, "gid_attrs", "types", slot)
		if err != nil {
			empty++ // EINVAL for an empty slot, ENOENT behind the last one
			continue
		}
		empty = 0
		if kind != "RoCE v2" {
			continue
		}
		iface, err := readAttr(dir, "gid_attrs", "ndevs", slot)
		if err != nil || !interfaceName.MatchString(iface) {
			continue
		}
		gid, err := readAttr(dir, "gids", slot)
		if err != nil {
			continue
		}
		addr, err := parseGID(gid)
		if err != nil {
			s.problem(SourceRDMA, subject, "GID %s: %v", slot, err)
			continue
		}
		if usable(addr) != nil {
			continue
		}
		have, ok := owned[iface]
		if !ok {
			have = r.addressSet(s, subject, iface)
			owned[iface] = have
		}
		if have[addr] {
			p := template
			p.Address, p.Interface = addr, iface
			s.Portals = append(s.Portals, p)
		}
	}
}

// addIPoIB adds the addresses of the network interface that runs IP on the port.
func (r *Reader) addIPoIB(s *portalScan, subject string, template Portal) {
	net := r.sys("class", "infiniband", template.Device, "device", "net")
	entries, err := os.ReadDir(net)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.degrade(SourceRDMA, subject, "network interfaces cannot be listed: %v", err)
		return
	}
	for _, e := range entries {
		// dev_port counts from 0, ports from 1.
		n, err := readInt(filepath.Join(net, e.Name()), "dev_port")
		if err != nil || int(n)+1 != template.Port || !interfaceName.MatchString(e.Name()) {
			continue
		}
		for addr := range r.addressSet(s, subject, e.Name()) {
			p := template
			p.Address, p.Interface = addr, e.Name()
			s.Portals = append(s.Portals, p)
		}
	}
}

// addressSet returns the usable addresses of an interface that is up.
func (r *Reader) addressSet(s *portalScan, subject, iface string) map[netip.Addr]bool {
	addrs, up, err := r.addrs.OfInterface(iface)
	if err != nil {
		s.degrade(SourceRDMA, subject, "%v", err)
		return nil
	}
	if !up {
		s.problem(SourceRDMA, subject, "interface %s is down", iface)
		return nil
	}
	out := map[netip.Addr]bool{}
	for _, a := range addrs {
		if usable(a) == nil {
			out[a] = true
		}
	}
	return out
}

// parseGID reads a GID, eight groups of four hex digits. An IPv4 address is in
// mapped form (RoCE v2, InfiniBand Architecture annex A17).
func parseGID(s string) (netip.Addr, error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, ":", ""))
	if err != nil || len(raw) != 16 {
		return netip.Addr{}, fmt.Errorf("%q is not a GID of 16 bytes", s)
	}
	return netip.AddrFrom16([16]byte(raw)).Unmap(), nil
}

// parseRate reads a port's rate, such as "100 Gb/sec (4X EDR)", as Mbit/s; 0 when
// it cannot be read.
func parseRate(s string) int64 {
	value, _, ok := strings.Cut(s, " Gb/sec")
	if !ok {
		return 0
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f > 0 && f <= 1e6) { // NaN fails every comparison
		return 0
	}
	return int64(f * 1000)
}
