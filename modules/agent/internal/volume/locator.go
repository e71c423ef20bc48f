package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Errors of Locator.
var (
	// ErrDriveMissing: no working drive has the serial number now.
	ErrDriveMissing = errors.New("drive is not available")
	// ErrSliceMissing: the drive was read, and the slice is not on it.
	ErrSliceMissing = errors.New("slice is not on its drive")
)

// Drives is what a Locator asks about the drives of this node; inventory.Reader
// has it.
type Drives interface {
	// Scan reads all local drives.
	Scan(ctx context.Context) inventory.Scan
	// Partitions returns the kernel's partitions of a drive.
	Partitions(device string) ([]inventory.Partition, error)
	// Uses says what the host itself does with a device.
	Uses(device string) ([]inventory.Use, error)
}

// Locator finds and makes the slices of volumes. It goes by the drive's serial
// number and the partition's UUID, and takes device names from the kernel each
// time: they change. What it keeps in memory is where on the drive a partition
// was seen; the kernel has to confirm that before it is used. So an attach neither
// starts a program nor waits behind the drive's lock, which a deletion holds as
// long as it zeroes.
type Locator struct {
	drives  Drives
	manager carve.VolumeManager

	mu   sync.Mutex
	seen map[place]carve.Volume
}

// place names a partition across reboots.
type place struct{ serial, uuid string }

// NewLocator returns a Locator.
func NewLocator(drives Drives, manager carve.VolumeManager) *Locator {
	return &Locator{drives: drives, manager: manager, seen: map[place]carve.Volume{}}
}

// PartitionUUID is the identity of the partition's slice on its drive: the
// recorded one, or before anything was recorded the one it is made with. They are
// the same, so that a crash between carving and recording leaks nothing.
func PartitionUUID(p *v1alpha1.NVMePartition) string {
	if b := p.Status.Backend; b != nil && b.PartitionUUID != "" {
		return b.PartitionUUID
	}
	return identity.PartitionUUID(string(p.UID))
}

// Drive implements Carver.
func (l *Locator) Drive(ctx context.Context, serial string) (inventory.Drive, error) {
	return kernels(driveOf(l.drives.Scan(ctx), serial))
}

// kernels refuses a drive that SPDK has.
func kernels(d inventory.Drive, err error) (inventory.Drive, error) {
	if err == nil && d.Bdev != "" {
		return inventory.Drive{}, fmt.Errorf("%w: SPDK has the drive with serial %q (bdev %s)", ErrDriveMissing, d.Serial, d.Bdev)
	}
	return d, err
}

func driveOf(scan inventory.Scan, serial string) (inventory.Drive, error) {
	d, err := scan.Find(serial)
	if err != nil {
		return inventory.Drive{}, fmt.Errorf("%w: %w", ErrDriveMissing, err)
	}
	if d.State != inventory.StateLive {
		return inventory.Drive{}, fmt.Errorf("%w: serial %q: its controller %s is %q, not %q", ErrDriveMissing, serial, d.Controller, d.State, inventory.StateLive)
	}
	return d, nil
}

// Find returns the slice that exists for the partition. It never makes one:
// ErrSliceMissing says that the drive does not have it.
func (l *Locator) Find(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) (carve.Volume, error) {
	at := place{d.Serial, PartitionUUID(p)}
	if v, ok := l.recall(at); ok {
		parts, err := l.drives.Partitions(d.Name)
		if err != nil {
			return carve.Volume{}, err
		}
		if v, ok = confirm(v, parts); ok {
			return v, nil
		}
		l.Forget(d.Serial)
	}
	all, err := l.manager.List(ctx, d)
	if errors.Is(err, carve.ErrNotInitialised) {
		return carve.Volume{}, fmt.Errorf("%w: partition %s: drive %q is blank", ErrSliceMissing, at.uuid, d.Serial)
	}
	if err != nil {
		return carve.Volume{}, err
	}
	i := slices.IndexFunc(all, func(v carve.Volume) bool { return v.UUID == at.uuid })
	if i < 0 {
		return carve.Volume{}, fmt.Errorf("%w: drive %q has no partition %s", ErrSliceMissing, d.Serial, at.uuid)
	}
	v := all[i]
	if v.DevicePath == "" {
		// It is in the table; Create only makes the kernel know it.
		return l.create(ctx, d, carve.Slice{UUID: v.UUID, Name: v.Name, SizeBytes: v.SizeBytes})
	}
	for _, v := range all {
		l.remember(d.Serial, v)
	}
	return v, nil
}

// Make makes sure that the partition's slice exists, on a drive that is blank or
// DISTORT's own. It may be smaller than asked for; see Grow.
func (l *Locator) Make(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) (carve.Volume, error) {
	if err := l.manager.Init(ctx, d); err != nil {
		return carve.Volume{}, err
	}
	v, err := l.create(ctx, d, sliceOf(p))
	if errors.Is(err, carve.ErrConflict) {
		// An agent that died made it before the volume was asked to grow.
		if made, found := l.Find(ctx, p, d); found == nil && made.SizeBytes < p.Spec.Size {
			return made, nil
		}
	}
	return v, err
}

func (l *Locator) create(ctx context.Context, d inventory.Drive, s carve.Slice) (carve.Volume, error) {
	v, err := l.manager.Create(ctx, d, s)
	if err != nil {
		return carve.Volume{}, err
	}
	l.remember(d.Serial, v)
	return v, nil
}

// Grow makes the partition's slice as large as its spec asks, in place; kept says
// which slices are yet to be made on the drive.
func (l *Locator) Grow(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive, kept func(context.Context) ([]carve.Slice, error)) (carve.Volume, error) {
	v, err := l.manager.Grow(ctx, d, sliceOf(p), kept)
	if err != nil {
		return carve.Volume{}, err
	}
	l.remember(d.Serial, v)
	return v, nil
}

// sliceOf is the slice that the partition asks for.
func sliceOf(p *v1alpha1.NVMePartition) carve.Slice {
	return carve.Slice{UUID: PartitionUUID(p), Name: identity.ExternalID(string(p.UID)), SizeBytes: p.Spec.Size}
}

// Delete makes sure that the partition's slice does not exist. The manager reads
// back that it is gone: another look from here would wait behind every deletion on
// the same drive.
func (l *Locator) Delete(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) error {
	l.Forget(d.Serial)
	return l.manager.Delete(ctx, d, PartitionUUID(p))
}

// Release implements Carver. The kernel keeps its drives.
func (l *Locator) Release(context.Context, string) (bool, error) { return true, nil }

// Forget drops what is remembered of one drive, so that its table is read again.
func (l *Locator) Forget(serial string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := range l.seen {
		if at.serial == serial {
			delete(l.seen, at)
		}
	}
}

func (l *Locator) remember(serial string, v carve.Volume) {
	if v.DevicePath == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[place{serial, v.UUID}] = v
}

func (l *Locator) recall(at place) (carve.Volume, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.seen[at]
	return v, ok
}

// confirm returns the volume with the device that the kernel has for it now: a
// partition of the same number at the same place.
func confirm(v carve.Volume, parts []inventory.Partition) (carve.Volume, bool) {
	for _, p := range parts {
		if p.Number == v.Number && p.StartBytes == v.StartBytes && p.SizeBytes == v.SizeBytes {
			v.DevicePath, v.Dev = p.Path, p.Dev
			return v, true
		}
	}
	return carve.Volume{}, false
}
