package instant

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/nvmeof"
)

// Node has drives and a target. It outlives the agents on it, and is safe for
// concurrent use.
type Node struct {
	mu      sync.Mutex
	drives  []*drive
	byName  map[string]*drive
	bySer   map[string]*drive
	changes map[string]uint64 // by serial number
	exports map[string]nvmeof.Subsystem
}

// New returns a node with so many drives of that size in bytes. Serial numbers are
// what Serial says.
func New(drives int, bytes int64) *Node {
	n := &Node{byName: map[string]*drive{}, bySer: map[string]*drive{}, changes: map[string]uint64{}, exports: map[string]nvmeof.Subsystem{}}
	for i := range drives {
		d := newDrive(i, bytes)
		n.drives = append(n.drives, d)
		n.byName[d.inventory.Name], n.bySer[d.inventory.Serial] = d, d
	}
	return n
}

// Serial is the serial number of the drive with that index.
func Serial(index int) string { return fmt.Sprintf("INSTANT-%04d", index) }

// Scan implements volume.Drives.
func (n *Node) Scan(context.Context) inventory.Scan {
	scan := inventory.Scan{Complete: true}
	for _, d := range n.drives {
		scan.Drives = append(scan.Drives, d.inventory)
	}
	return scan
}

// Partitions implements volume.Drives.
func (n *Node) Partitions(device string) ([]inventory.Partition, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d, ok := n.byName[device]
	if !ok {
		return nil, fmt.Errorf("instant: no drive %q", device)
	}
	return d.partitions(), nil
}

// Uses implements volume.Drives: nobody uses anything.
func (*Node) Uses(string) ([]inventory.Use, error) { return nil, nil }

// Portals implements volume.PortalSource.
func (*Node) Portals(context.Context) inventory.PortalScan {
	return inventory.PortalScan{Complete: true, Portals: []inventory.Portal{
		{Fabric: inventory.FabricTCP, Address: netip.MustParseAddr("10.0.0.1"), Interface: "eth0", NUMANode: -1},
	}}
}

// Probe implements report.Prober.
func (n *Node) Probe(_ context.Context, d inventory.Drive) media.Finding {
	n.mu.Lock()
	defer n.mu.Unlock()
	if known := n.bySer[d.Serial]; known != nil && known.labelled {
		return media.Finding{Verdict: media.Distort}
	}
	return media.Finding{Verdict: media.Blank}
}
