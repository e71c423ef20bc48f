package nvmeof

import (
	"net/netip"
	"strconv"
)

// State is a subsystem as it was read from the target.
type State struct {
	NQN    string `json:"nqn"`
	Serial string `json:"serial"`
	Model  string `json:"model"`
	// AllowAnyHost tells that the allow-list is not in force. Ensure never
	// leaves it so.
	AllowAnyHost bool             `json:"allowAnyHost"`
	AllowedHosts []string         `json:"allowedHosts"` // sorted
	Namespaces   []NamespaceState `json:"namespaces"`   // sorted by NSID
	Ports        []Port           `json:"ports"`        // sorted by ID, those that serve this subsystem
	// ConnectedHosts are the hosts that have a controller now, sorted. It is nil
	// where the target does not show them: most kernels do not.
	ConnectedHosts []string `json:"connectedHosts,omitempty"`
}

// NamespaceState is one namespace as read.
type NamespaceState struct {
	Namespace
	// Enabled tells that hosts see the namespace. A namespace that reads as
	// not enabled may still be draining.
	Enabled bool `json:"enabled"`
}

// Port is an address on which the target listens, in the target's own words:
// it may have been made by someone else, with a transport that this library
// does not know.
type Port struct {
	ID        uint16 `json:"id"`
	Transport string `json:"transport"`
	Family    string `json:"family"`
	Address   string `json:"address"`
	Service   string `json:"service"`
}

// Listener returns the port as a Listener; ok is false if it is none that this
// library would make.
func (p Port) Listener() (l Listener, ok bool) {
	addr, err := netip.ParseAddr(p.Address)
	if err != nil {
		return Listener{}, false
	}
	service, err := strconv.ParseUint(p.Service, 10, 16)
	if err != nil {
		return Listener{}, false
	}
	l = Listener{Transport: Transport(p.Transport), Address: addr, Port: uint16(service)}
	return l, l.brokenRule() == "" && p.Family == string(l.Family())
}

// PortOf returns the words with which the kernel describes the listener.
func PortOf(id uint16, l Listener) Port {
	return Port{ID: id, Transport: string(l.Transport), Family: string(l.Family()),
		Address: l.Address.String(), Service: strconv.Itoa(int(l.Port))}
}
