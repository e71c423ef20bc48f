// Package spdkdrive moves drives between the kernel and SPDK, and shows those that
// SPDK has among the drives of the node.
//
// SPDK takes a whole controller, and the kernel has no device for it any more. So a
// drive goes there only while nothing on the node uses it, only namespace 1 is on it,
// and it is blank or has a store of DISTORT's; whatever fails on the way, it goes
// back. What a store on a drive is called derives from the drive's serial number:
// one with another name is somebody else's.
package spdkdrive

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/devicelock"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/nvmeof/spdk/drives"
	"github.com/distort-io/distort/modules/nvmeof/spdk/lvol"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Kernel is what the kernel knows of this node's hardware; inventory.Reader has it.
type Kernel interface {
	Scan(ctx context.Context) inventory.Scan
	Portals(ctx context.Context) inventory.PortalScan
	Partitions(device string) ([]inventory.Partition, error)
	Uses(device string) ([]inventory.Use, error)
	// UsesNow is Uses for the moment before something destructive.
	UsesNow(device string) ([]inventory.Use, error)
	// OtherNamespaces are the devices of a controller besides namespace 1.
	OtherNamespaces(controller string) ([]string, error)
	// Denied tells whether the drive is never to be touched.
	Denied(serial, address string) bool
}

// Prober says what is on a drive that the kernel has (media.Prober).
type Prober interface {
	Probe(ctx context.Context, d inventory.Drive) media.Finding
}

// Config is what a Host needs. All fields are required.
type Config struct {
	Kernel Kernel
	Bus    *pci.Bus
	Prober Prober
	// Client is that of the export backend's target.
	Client *rpc.Client
	// Known are the PCI addresses of the node's drives by serial number, as its objects
	// have them: a drive that neither the kernel nor SPDK has now is found by it.
	Known func(ctx context.Context) (map[string]string, error)
}

// Host is the hardware of a node with SPDK. It is safe for concurrent use.
type Host struct {
	Config
	// Volumes are the logical volumes of the target.
	Volumes *lvol.Volumes

	spdk  *drives.Drives
	locks *devicelock.Locks
	// setup is held shared while a drive is between kernel and SPDK.
	setup sync.RWMutex

	mu      sync.Mutex
	changes map[string]uint64
}

// New returns a Host.
func New(c Config) (*Host, error) {
	if c.Kernel == nil || c.Bus == nil || c.Prober == nil || c.Client == nil || c.Known == nil {
		return nil, errors.New("drives of SPDK: kernel, bus, prober, client and known must all be set")
	}
	return &Host{
		Config: c, Volumes: lvol.New(c.Client), spdk: drives.New(c.Client), locks: devicelock.New("drive"), changes: map[string]uint64{},
	}, nil
}

// plain are the serial numbers that SPDK takes in names.
var plain = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Device is how SPDK's names call the drive: by its serial number, or by a hash of one
// that has other characters than names may have.
func Device(serial string) string {
	if plain.MatchString(serial) {
		return serial
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(serial)))[:20]
}

// controller is the name that an attached drive has in SPDK.
func controller(serial string) string { return "nvme_" + Device(serial) }

// StoreName is the name of DISTORT's store on the drive.
func StoreName(serial string) string { return lvol.StoreName(Device(serial)) }

// Scan is Kernel.Scan with the drives that SPDK has. A drive that is between both is
// waited for.
func (h *Host) Scan(ctx context.Context) inventory.Scan {
	scan := h.adopt(ctx, h.Kernel.Scan(ctx))
	if len(scan.Functions) > 0 {
		h.settled()
		scan = h.adopt(ctx, h.Kernel.Scan(ctx))
	}
	return scan
}

// settled waits until no drive is between kernel and SPDK.
func (h *Host) settled() {
	h.setup.Lock()
	defer h.setup.Unlock()
}

// adopt adds those drives of SPDK's that the kernel shows as functions only. Where
// there is none, SPDK is not asked.
func (h *Host) adopt(ctx context.Context, scan inventory.Scan) inventory.Scan {
	if len(scan.Functions) == 0 {
		return scan
	}
	attached, err := h.spdk.List(ctx)
	if err != nil {
		scan.Problems = append(scan.Problems, inventory.Problem{Source: inventory.SourceSPDK, Subject: "drives", Message: err.Error()})
		return scan
	}
	var found []inventory.Drive
	for _, a := range attached {
		i := slices.IndexFunc(scan.Functions, func(f inventory.Function) bool { return f.Address == a.Address })
		if i >= 0 && a.Bdev != "" {
			found = append(found, drive(a, scan.Functions[i].NUMANode))
		}
	}
	scan = scan.Adopt(found)
	scan.Drives = slices.DeleteFunc(scan.Drives, func(d inventory.Drive) bool { return h.Kernel.Denied(d.Serial, d.PCIAddress) })
	return scan
}

// drive is an attached drive as inventory has it.
func drive(a drives.Drive, numa int) inventory.Drive {
	return inventory.Drive{
		Serial: a.Serial, Model: a.Model, PCIAddress: a.Address, NUMANode: numa, Controller: a.Name, State: inventory.StateLive,
		Name: a.Bdev, Bdev: a.Bdev, SizeBytes: int64(a.SizeBytes), BlockBytes: int64(a.BlockBytes),
	}
}

// bdev tells a name of Scan's for a drive that SPDK has from a block device of the
// kernel's, whose names have no such character.
var bdev = regexp.MustCompile(`^nvme_`)

// Partitions are those of Kernel. A drive that SPDK has has none.
func (h *Host) Partitions(device string) ([]inventory.Partition, error) {
	if bdev.MatchString(device) {
		return nil, nil
	}
	return h.Kernel.Partitions(device)
}

// Uses are those of Kernel. The host cannot use a drive that SPDK has.
func (h *Host) Uses(device string) ([]inventory.Use, error) {
	if bdev.MatchString(device) {
		return nil, nil
	}
	return h.Kernel.Uses(device)
}

// Portals are those of Kernel.
func (h *Host) Portals(ctx context.Context) inventory.PortalScan { return h.Kernel.Portals(ctx) }

// Changes counts the changes of what is on a drive, as carve.VolumeManager does.
func (h *Host) Changes(serial string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes[serial]
}

// Changed counts one.
func (h *Host) Changed(serial string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes[serial]++
}

// Do runs change as the only one of the drive.
func (h *Host) Do(ctx context.Context, serial string, change func(context.Context) error) error {
	return h.locks.Do(ctx, serial, change)
}
