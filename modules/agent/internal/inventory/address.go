package inventory

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
)

// Addresses answers which addresses the host's network interfaces have.
type Addresses interface {
	// OfInterface returns the addresses of the interface, and whether it is up.
	OfInterface(name string) (addrs []netip.Addr, up bool, err error)
	// Owner returns the interface that has the address, "" when none has.
	Owner(addr netip.Addr) (string, error)
}

// HostAddresses reads the interfaces of the network namespace that the agent
// runs in, which must be the host's.
type HostAddresses struct{}

var _ Addresses = HostAddresses{}

// OfInterface implements Addresses.
func (HostAddresses) OfInterface(name string) ([]netip.Addr, bool, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, false, fmt.Errorf("interface %s: %w", name, err)
	}
	addrs, err := addrsOf(i)
	return addrs, i.Flags&net.FlagUp != 0, err
}

// Owner implements Addresses.
func (HostAddresses) Owner(addr netip.Addr) (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		addrs, err := addrsOf(&i)
		if err != nil {
			return "", err
		}
		for _, a := range addrs {
			if a == addr {
				return i.Name, nil
			}
		}
	}
	return "", nil
}

func addrsOf(i *net.Interface) ([]netip.Addr, error) {
	raw, err := i.Addrs()
	if err != nil {
		return nil, fmt.Errorf("addresses of %s: %w", i.Name, err)
	}
	var out []netip.Addr
	for _, a := range raw {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, addr.Unmap())
			}
		}
	}
	return out, nil
}

// usable says why a target must not listen on an address: a remote host could
// not connect to it, or not to this node alone.
func usable(a netip.Addr) error {
	switch {
	case !a.IsValid():
		return errors.New("not an address")
	case a.IsUnspecified():
		return fmt.Errorf("%s is the unspecified address", a)
	case a.IsLoopback():
		return fmt.Errorf("%s is a loopback address", a)
	case a.IsLinkLocalUnicast():
		return fmt.Errorf("%s is a link-local address", a)
	case a.IsMulticast():
		return fmt.Errorf("%s is a multicast address", a)
	case a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return fmt.Errorf("%s is the broadcast address", a)
	}
	return nil
}

// interfaceName is the kernel's grammar (dev_valid_name) without the odd
// characters it also allows.
var interfaceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$`)

// tcpSource is where NVMe/TCP addresses come from.
type tcpSource struct {
	iface string
	addrs []netip.Addr
}

func parseTCPSource(iface string, addrs []string) (tcpSource, error) {
	if iface != "" {
		if !interfaceName.MatchString(iface) {
			return tcpSource{}, fmt.Errorf("TCP interface %q: must match %s", iface, interfaceName)
		}
		return tcpSource{iface: iface}, nil
	}
	var out tcpSource
	for _, s := range addrs {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return tcpSource{}, fmt.Errorf("TCP address %q: must be an IPv4 or IPv6 address without a zone", s)
		}
		if err := usable(a.Unmap()); err != nil {
			return tcpSource{}, fmt.Errorf("TCP address %q: %w", s, err)
		}
		out.addrs = append(out.addrs, a.Unmap())
	}
	return out, nil
}
