package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// PortalSource reads the addresses of this node; inventory.Reader has it.
type PortalSource interface {
	Portals(ctx context.Context) inventory.PortalScan
}

// HostPortals are the node's addresses as portals. It is safe for concurrent use.
type HostPortals struct {
	source            PortalSource
	tcpPort, rdmaPort int32

	mu sync.Mutex
	// last is what the last complete scan saw.
	last []v1alpha1.Portal
}

var _ Portals = (*HostPortals)(nil)

// NewHostPortals returns the portals on these ports.
func NewHostPortals(source PortalSource, tcpPort, rdmaPort int32) *HostPortals {
	return &HostPortals{source: source, tcpPort: tcpPort, rdmaPort: rdmaPort}
}

// errIncomplete: what a scan does not have may be there all the same.
var errIncomplete = errors.New("the node's addresses could not be read")

// On implements Portals. An address that only a scan with errors does not see
// stays: its listener may have live connections.
func (h *HostPortals) On(ctx context.Context, t v1alpha1.Transport) ([]v1alpha1.Portal, error) {
	scan := h.source.Portals(ctx)
	var all []v1alpha1.Portal
	for _, p := range scan.Portals {
		portal := v1alpha1.Portal{Transport: v1alpha1.TransportRDMA, Address: p.Address.String(), Port: h.rdmaPort}
		if p.Fabric == inventory.FabricTCP {
			portal.Transport, portal.Port = v1alpha1.TransportTCP, h.tcpPort
		}
		all = append(all, portal)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if scan.Complete {
		h.last = all
	} else {
		for _, p := range h.last {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	var out []v1alpha1.Portal
	for _, p := range all {
		if p.Transport == t {
			out = append(out, p)
		}
	}
	if len(out) == 0 && !scan.Complete {
		if len(scan.Problems) == 0 {
			return nil, errIncomplete
		}
		return nil, fmt.Errorf("%w: %s", errIncomplete, scan.Problems[0])
	}
	slices.SortFunc(out, func(a, b v1alpha1.Portal) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}
