// Package volumetest has a storage node for tests of what carves and exports: one
// drive (carvetest) and one kernel (nvmeoftest) that know of each other, and agent
// processes on it that can be killed at any effect.
package volumetest

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/pci/pcitest"
	"github.com/distort-io/distort/modules/agent/internal/zfs/zfstest"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Node is the hardware and the kernel. It outlives the agents on it. It is safe
// for concurrent use.
type Node struct {
	Name   string
	Serial string
	Kernel *nvmeoftest.Kernel
	Drive  *carvetest.Drive
	// Pools are the node's ZFS, without any pool at first.
	Pools *zfstest.Host
	// SPDK and Sysfs are set where the node's volumes are SPDK's (NewSPDKNode).
	SPDK  *spdkfake.Server
	Sysfs *pcitest.Sysfs
	// Sites collects where in the code effects came from; it may be nil.
	Sites *Sites

	mu      sync.Mutex
	pulled  bool
	address string // of the drive's slot
	// devices are the partitions that nvmet knows as devices, by path.
	devices map[string]inventory.DevNum
	// zvols are those that nvmet knows as devices: their GUIDs by path.
	zvols   map[string]string
	uses    map[string]string
	portals []inventory.Portal
	clients []*rpc.Client // of all processes
	others  []string      // namespaces besides 1
}

// NewNode returns a node with a blank drive of that size and one portal for each
// transport.
func NewNode(name, serial string, size int64) *Node {
	n := &Node{
		Name: name, Serial: serial, address: "0000:00:04.0",
		Kernel: nvmeoftest.NewKernel(), Drive: carvetest.NewDrive(serial, size), Pools: zfstest.NewHost(),
		uses: map[string]string{}, devices: map[string]inventory.DevNum{}, zvols: map[string]string{},
		portals: []inventory.Portal{
			{Fabric: inventory.FabricRoCEv2, Address: netip.MustParseAddr("10.0.1.1"), Interface: "eth1", Device: "rxe0", Port: 1, NUMANode: -1},
			{Fabric: inventory.FabricTCP, Address: netip.MustParseAddr("10.0.0.1"), Interface: "eth0", NUMANode: -1},
		},
	}
	n.Drive.Runner().Observe(func() { n.Sites.note() })
	n.Pools.Runner().Observe(func() { n.Sites.note() })
	return n
}

// Reboot makes the node forget what only its kernel knew, and read the drive's
// table again.
func (n *Node) Reboot() {
	if n.SPDK != nil {
		n.Sysfs.Reboot()
		n.SPDK.Restart()
	}
	n.Kernel = nvmeoftest.NewKernel()
	for _, p := range n.known() {
		n.Drive.Unexport(p.Number)
	}
	n.Drive.Reread()
	n.Pools.Reboot()
	n.mu.Lock()
	clear(n.devices)
	clear(n.zvols)
	n.mu.Unlock()
	n.couple()
}

// Pull takes the drive out, or puts it back in.
func (n *Node) Pull(out bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pulled = out
}

// Use makes somebody on the node use a device, as a mount does; "" ends it.
func (n *Node) Use(device, detail string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.uses[device] = detail
}

// SetPortals replaces the node's addresses.
func (n *Node) SetPortals(portals ...inventory.Portal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.portals = portals
}

// Scan is what inventory.Reader.Scan answers.
func (n *Node) Scan(context.Context) inventory.Scan {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pulled {
		return inventory.Scan{Complete: true}
	}
	d := n.Drive.Inventory()
	d.PCIAddress = n.address
	if n.Sysfs != nil && n.Sysfs.Driver(n.address) != pci.NVMe {
		f := inventory.Function{Address: n.address, Driver: n.Sysfs.Driver(n.address), NUMANode: -1}
		return inventory.Scan{Functions: []inventory.Function{f},
			Problems: []inventory.Problem{{Source: inventory.SourcePCI, Subject: n.address, Message: "bound to " + f.Driver}}}
	}
	return inventory.Scan{Complete: true, Drives: []inventory.Drive{d}}
}

// Move puts the drive into another slot.
func (n *Node) Move(address string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.address = address
}

// Partitions is what inventory.Reader.Partitions answers.
func (n *Node) Partitions(device string) ([]inventory.Partition, error) {
	return n.Drive.Partitions(device)
}

// Uses is what inventory.Reader.Uses answers.
func (n *Node) Uses(device string) ([]inventory.Use, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if detail := n.uses[device]; detail != "" {
		return []inventory.Use{{Device: device, Kind: inventory.UsedByMount, Detail: detail}}, nil
	}
	return nil, nil
}

// Portals is what inventory.Reader.Portals answers.
func (n *Node) Portals(context.Context) inventory.PortalScan {
	n.mu.Lock()
	defer n.mu.Unlock()
	return inventory.PortalScan{Complete: true, Portals: slices.Clone(n.portals)}
}

// Slices are the UUIDs of the slices on the drive, sorted and in lower case.
func (n *Node) Slices() []string {
	var out []string
	if n.SPDK != nil {
		for _, l := range n.SPDK.Lvols() {
			out = append(out, l.UUID)
		}
		slices.Sort(out)
		return out
	}
	for _, e := range n.Drive.Entries() {
		out = append(out, strings.ToLower(e.UUID))
	}
	slices.Sort(out)
	return out
}

// Exports is the state of every subsystem.
func (n *Node) Exports(t testing.TB) []string {
	t.Helper()
	states, err := n.Target().List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range states {
		out = append(out, s.NQN)
	}
	return out
}

func (n *Node) known() []inventory.Partition {
	parts, err := n.Drive.Partitions(n.Drive.Inventory().Name)
	if err != nil {
		return nil
	}
	return parts
}

// couple tells the drive and the pools what of theirs nvmet has open, and nvmet
// which devices there are.
func (n *Node) couple() {
	exported := map[string]bool{}
	states, err := kernel.New(n.Kernel).List(context.Background())
	if err != nil {
		return // the process is dead, and does nothing more
	}
	for _, s := range states {
		for _, ns := range s.Namespaces {
			if ns.Enabled {
				exported[ns.DevicePath] = true
			}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.known() {
		if n.devices[p.Path] != p.Dev {
			// Another partition under this name, not the one that may be exported.
			n.devices[p.Path] = p.Dev
			n.Kernel.AddDevice(p.Path)
		}
		n.Kernel.Resize(p.Path, p.SizeBytes)
		if exported[p.Path] {
			n.Drive.Export(p.Number)
		} else {
			n.Drive.Unexport(p.Number)
		}
	}
	for _, z := range n.Pools.Zvols() {
		if n.zvols[z.Path] != z.GUID {
			n.zvols[z.Path] = z.GUID
			n.Kernel.AddDevice(z.Path)
		}
		n.Kernel.Resize(z.Path, z.SizeBytes)
	}
	n.Pools.SetOpen(exported)
}

// manager is the drive's VolumeManager for one process.
type manager struct {
	carve.VolumeManager
	node    *Node
	process *Process
}

func (m *manager) Init(ctx context.Context, d inventory.Drive) error {
	return m.do(func() error { return m.VolumeManager.Init(ctx, d) })
}

func (m *manager) List(ctx context.Context, d inventory.Drive) (out []carve.Volume, err error) {
	err = m.do(func() error { out, err = m.VolumeManager.List(ctx, d); return err })
	return out, err
}

func (m *manager) Create(ctx context.Context, d inventory.Drive, s carve.Slice) (out carve.Volume, err error) {
	err = m.do(func() error { out, err = m.VolumeManager.Create(ctx, d, s); return err })
	return out, err
}

func (m *manager) Grow(ctx context.Context, d inventory.Drive, s carve.Slice, kept func(context.Context) ([]carve.Slice, error)) (out carve.Volume, err error) {
	err = m.do(func() error { out, err = m.VolumeManager.Grow(ctx, d, s, kept); return err })
	return out, err
}

func (m *manager) Survey(ctx context.Context, d inventory.Drive, blank bool) (out carve.Survey, err error) {
	err = m.do(func() error { out, err = m.VolumeManager.Survey(ctx, d, blank); return err })
	return out, err
}

func (m *manager) Delete(ctx context.Context, d inventory.Drive, uuid string) error {
	return m.do(func() error { return m.VolumeManager.Delete(ctx, d, uuid) })
}

func (m *manager) do(op func() error) error {
	if m.process.Dead() {
		return ErrDead
	}
	m.node.couple()
	err := op()
	if m.node.Drive.Runner().Killed() {
		m.process.Kill()
	}
	m.node.couple()
	return err
}

// Dump is everything that the node has: the kernel's configuration and the table
// of the drive.
func (n *Node) Dump() []string {
	out := n.Kernel.Dump()
	if n.SPDK != nil {
		out = append(out, "driver "+n.Sysfs.Driver(n.address))
		for _, l := range n.SPDK.Lvols() {
			out = append(out, "logical volume "+l.Name)
		}
		if n.SPDK.Stored(n.address) {
			out = append(out, "store")
		}
	}
	entries := n.Drive.Entries()
	for _, number := range slices.Sorted(maps.Keys(entries)) {
		out = append(out, "partition "+strings.ToLower(entries[number].UUID))
	}
	for _, z := range n.Pools.Zvols() {
		out = append(out, "zvol "+z.Dataset)
	}
	return out
}
