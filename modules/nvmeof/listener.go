package nvmeof

import (
	"net/netip"
	"strconv"
	"strings"
)

// Transport is how hosts reach a listener.
type Transport string

// The transports of this library (NVMe-oF TRTYPE 3 and 1).
const (
	TCP  Transport = "tcp"
	RDMA Transport = "rdma"
)

// Family is the address family of a listener as the kernel spells it.
type Family string

// The address families of this library.
const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
)

// Listener is one address on which a subsystem can be reached. Listeners
// compare with ==.
type Listener struct {
	Transport Transport  `json:"transport"`
	Address   netip.Addr `json:"address"`
	Port      uint16     `json:"port"`
}

// ParseListener reads "tcp://10.0.0.1:4420" or "rdma://[fd00::1]:4421": a
// transport, a canonical unicast address (IPv6 in brackets, no zone) and a
// decimal port. It is the inverse of Listener.String.
func ParseListener(s string) (Listener, error) {
	scheme, hostport, ok := strings.Cut(s, "://")
	if !ok {
		return Listener{}, invalid("listener", s, "must be transport://address:port")
	}
	colon := strings.LastIndexByte(hostport, ':')
	if colon < 0 {
		return Listener{}, invalid("listener", s, "must be transport://address:port")
	}
	host, digits := hostport[:colon], hostport[colon+1:]
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || strconv.FormatUint(port, 10) != digits {
		return Listener{}, invalid("listener", s, "port must be a decimal number from 1 to 65535")
	}
	text := host
	if bare, ok := strings.CutPrefix(host, "["); ok {
		if text, ok = strings.CutSuffix(bare, "]"); !ok {
			return Listener{}, invalid("listener", s, "bracket of the address must be closed")
		}
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.String() != text {
		return Listener{}, invalid("listener", s, "address must be a canonical IPv4 or IPv6 address")
	}
	if (text != host) != addr.Is6() {
		return Listener{}, invalid("listener", s, "IPv6 addresses, and only they, must be in brackets")
	}
	l := Listener{Transport: Transport(scheme), Address: addr, Port: uint16(port)}
	if rule := l.brokenRule(); rule != "" {
		return Listener{}, invalid("listener", s, rule)
	}
	return l, nil
}

// Family returns the family of the listener's address.
func (l Listener) Family() Family {
	if l.Address.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns the form that ParseListener reads.
func (l Listener) String() string {
	return string(l.Transport) + "://" + netip.AddrPortFrom(l.Address, l.Port).String()
}

// brokenRule returns the first rule that l breaks, or "".
//
// Wildcards are refused because a listener that holds every address keeps
// other exports from theirs (the kernel answers EADDRINUSE); link-local
// addresses because the kernel's traddr has no stable zone.
func (l Listener) brokenRule() string {
	a := l.Address
	switch {
	case l.Transport != TCP && l.Transport != RDMA:
		return "transport must be tcp or rdma"
	case !a.IsValid():
		return "address must be set"
	case a.Zone() != "":
		return "address must not have a zone"
	case a.Is4In6():
		return "address must not be an IPv4 address mapped into IPv6"
	case a.IsUnspecified():
		return "address must not be a wildcard"
	case a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "address must be unicast"
	case a.IsLinkLocalUnicast():
		return "address must not be link-local"
	case l.Port == 0:
		return "port must be a decimal number from 1 to 65535"
	}
	return ""
}
