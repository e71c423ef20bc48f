package volume

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Carver finds and makes the slices of one backend's partitions: GPT partitions for
// the kernel (Locator), logical volumes for SPDK (Lvols).
type Carver interface {
	// Drive returns the drive with this serial number, or ErrDriveMissing.
	Drive(ctx context.Context, serial string) (inventory.Drive, error)
	// Find returns the slice that exists for the partition. It never makes one:
	// ErrSliceMissing says that the drive does not have it.
	Find(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) (carve.Volume, error)
	// Make makes sure that the partition's slice exists, on a drive that is blank or
	// DISTORT's own. It may be smaller than asked for; see Grow.
	Make(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) (carve.Volume, error)
	// Grow makes the partition's slice as large as its spec asks, in place; kept says
	// which slices are yet to be made on the drive.
	Grow(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive, kept func(context.Context) ([]carve.Slice, error)) (carve.Volume, error)
	// Delete makes sure that the partition's slice does not exist, and reads back that
	// it is gone.
	Delete(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) error
	// Release gives the drive back when the last partition on it is gone. False says that
	// it cannot be given back, and stays the backend's.
	Release(ctx context.Context, serial string) (bool, error)
	// Forget drops what is remembered of one drive.
	Forget(serial string)
	// Survey is Finder.Survey for these partitions.
	Survey(ctx context.Context) func(s v1alpha1.Slice) (string, error)
}

// Locators are the Carvers of each backend that a node has.
type Locators map[v1alpha1.TargetBackend]Carver

var _ Finder = Locators{}

// Get returns those of the backend, or export.ErrUnsupported.
func (l Locators) Get(name v1alpha1.TargetBackend) (Carver, error) {
	if carver := l[name]; carver != nil {
		return carver, nil
	}
	return nil, fmt.Errorf("%w: %q has no drives", export.ErrUnsupported, name)
}

// Device implements Finder for partitions.
func (l Locators) Device(ctx context.Context, s v1alpha1.Slice) (string, error) {
	p, err := partitionOf(s)
	if err != nil {
		return "", err
	}
	carver, err := l.Get(p.Spec.TargetBackend)
	if err != nil {
		return "", err
	}
	d, err := carver.Drive(ctx, p.Spec.ParentDeviceSerialNumber)
	if err != nil {
		return "", err
	}
	v, err := carver.Find(ctx, p, d)
	return v.DevicePath, err
}

// Survey implements Finder for partitions. Each backend reads only if it is asked.
func (l Locators) Survey(ctx context.Context) func(v1alpha1.Slice) (string, error) {
	begun := map[v1alpha1.TargetBackend]func(v1alpha1.Slice) (string, error){}
	return func(s v1alpha1.Slice) (string, error) {
		name := s.GetTargetBackend()
		if begun[name] == nil {
			carver, err := l.Get(name)
			if err != nil {
				return "", err
			}
			begun[name] = carver.Survey(ctx)
		}
		return begun[name](s)
	}
}

// Forget drops what all backends remember of one drive.
func (l Locators) Forget(serial string) {
	for _, carver := range l {
		carver.Forget(serial)
	}
}

// Carved tells whether the partition's slice was recorded.
func Carved(p *v1alpha1.NVMePartition) bool {
	b := p.Status.Backend
	return b != nil && (b.PartitionUUID != "" || b.LvolUUID != "")
}

// SliceUUID is the identity of the partition's slice on its drive; empty for a logical
// volume that was not recorded, which SPDK gives an identity when it makes it.
func SliceUUID(p *v1alpha1.NVMePartition) string {
	if p.Spec.TargetBackend != v1alpha1.BackendSPDK {
		return PartitionUUID(p)
	}
	if b := p.Status.Backend; b != nil {
		return b.LvolUUID
	}
	return ""
}

// Identity is what is recorded of a slice.
func Identity(v carve.Volume) *v1alpha1.BackendIdentity {
	if v.StoreUUID == "" {
		return &v1alpha1.BackendIdentity{PartitionUUID: v.UUID}
	}
	return &v1alpha1.BackendIdentity{LvstoreName: v.StoreName, LvstoreUUID: v.StoreUUID, LvolName: v.Name, LvolUUID: v.UUID}
}
