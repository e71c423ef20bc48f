package initiator

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
)

// Transport is an NVMe-oF transport as the kernel spells it.
type Transport string

// Transports that DISTORT uses.
const (
	TCP  Transport = "tcp"
	RDMA Transport = "rdma"
)

// Portal is one address at which a subsystem listens.
type Portal struct {
	Transport Transport
	Address   netip.Addr
	Port      uint16
}

// String is the portal in the form tcp://10.0.0.1:4420.
func (p Portal) String() string {
	return string(p.Transport) + "://" + netip.AddrPortFrom(p.Address, p.Port).String()
}

// ParsePortal reads what String writes; its errors are ErrInvalid.
func ParsePortal(text string) (Portal, error) {
	transport, rest, found := strings.Cut(text, "://")
	address, err := netip.ParseAddrPort(rest)
	if !found || err != nil {
		return Portal{}, fmt.Errorf("%w: portal %q is not <transport>://<address>:<port>", ErrInvalid, text)
	}
	p := Portal{Transport: Transport(transport), Address: address.Addr(), Port: address.Port()}
	return p, p.Validate()
}

// PortalTexts writes portals as String does.
func PortalTexts(portals []Portal) []string {
	var texts []string
	for _, p := range portals {
		texts = append(texts, p.String())
	}
	return texts
}

// ParsePortals reads what PortalTexts writes; its errors are ErrInvalid.
func ParsePortals(texts []string) ([]Portal, error) {
	var portals []Portal
	for _, text := range texts {
		p, err := ParsePortal(text)
		if err != nil {
			return nil, err
		}
		portals = append(portals, p)
	}
	return portals, nil
}

// Params are the connection parameters of a controller. A nil field leaves the
// kernel's default, except where the field says otherwise.
type Params struct {
	// CtrlLossTimeout is the number of seconds after which a controller that
	// cannot be reached again is given up and its I/O fails; -1, which is also
	// what nil means, waits for ever.
	CtrlLossTimeout *int `json:"ctrlLossTimeout,omitempty"`
	// ReconnectDelay is the number of seconds between attempts; nil means 10.
	ReconnectDelay *int `json:"reconnectDelay,omitempty"`
	// KeepAliveTimeout is the keep-alive interval in seconds.
	KeepAliveTimeout *int `json:"keepAliveTimeout,omitempty"`
	// FastIOFailTimeout is the number of seconds after which I/O fails while
	// the controller goes on reconnecting; -1, which is also what nil means, is
	// off.
	FastIOFailTimeout *int `json:"fastIOFailTimeout,omitempty"`
	// IOQueues is the number of I/O queues; nil means min(CPUs, 8), since 128
	// RDMA queues take 32 s to connect and 16 take 5 s.
	IOQueues *int `json:"ioQueues,omitempty"`
	// QueueSize is the number of entries in each queue.
	QueueSize *int `json:"queueSize,omitempty"`
}

// Target is a subsystem, where it listens, and who we are to it. Portals come
// from the publish context and nowhere else (known fault ST23).
type Target struct {
	NQN string
	// HostNQN and HostID are one pair per node: the kernel refuses either with
	// another partner (known fault ST1), and neither is read from /etc/nvme
	// (ST4).
	HostNQN string
	HostID  string
	Portals []Portal
	Params  Params
}

// Identity is what a namespace must be to be the volume's. All of NQN, NSID and
// UUID must match, and NGUID too when it is not empty.
type Identity struct {
	NQN   string
	NSID  uint32
	UUID  string
	NGUID string
}

// String is for messages.
func (i Identity) String() string {
	s := fmt.Sprintf("subsystem %s nsid %d uuid %s", i.NQN, i.NSID, i.UUID)
	if i.NGUID != "" {
		s += " nguid " + i.NGUID
	}
	return s
}

// Number is a block device's major and minor number.
type Number = blockdev.Number

// Device is a block device that was found to be a volume's namespace.
type Device struct {
	Identity Identity
	// Name is the kernel's name, for example nvme1n2.
	Name string
	// Path is the device node.
	Path   string
	Number Number
	// Size is in bytes and never 0.
	Size int64
	// Alternates are the numbers of further block devices of the same
	// namespace: with nvme_core.multipath=N each path has its own.
	Alternates []Number
}

// Is tells whether n is this namespace.
func (d Device) Is(n Number) bool {
	if d.Number == n {
		return true
	}
	for _, other := range d.Alternates {
		if other == n {
			return true
		}
	}
	return false
}
