package volume

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Device implements Finder for partitions.
func (l *Locator) Device(ctx context.Context, s v1alpha1.Slice) (string, error) {
	p, err := partitionOf(s)
	if err != nil {
		return "", err
	}
	d, err := l.Drive(ctx, p.Spec.ParentDeviceSerialNumber)
	if err != nil {
		return "", err
	}
	slice, err := l.Find(ctx, p, d)
	return slice.DevicePath, err
}

// Survey implements Finder for partitions: one scan of the drives, and one list of
// partitions for each drive.
func (l *Locator) Survey(ctx context.Context) func(v1alpha1.Slice) (string, error) {
	drives := driveCheck{scan: l.drives.Scan(ctx), locator: l, parts: map[string][]inventory.Partition{}}
	return func(s v1alpha1.Slice) (string, error) {
		p, err := partitionOf(s)
		if err != nil {
			return "", err
		}
		return drives.path(p)
	}
}

func partitionOf(s v1alpha1.Slice) (*v1alpha1.NVMePartition, error) {
	p, ok := s.(*v1alpha1.NVMePartition)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not on a drive", ErrNoFinder, Name(s))
	}
	return p, nil
}

// driveCheck confirms remembered slices with one read of each drive.
type driveCheck struct {
	scan    inventory.Scan
	locator *Locator
	parts   map[string][]inventory.Partition
}

func (c *driveCheck) path(p *v1alpha1.NVMePartition) (string, error) {
	d, err := kernels(driveOf(c.scan, p.Spec.ParentDeviceSerialNumber))
	if err != nil {
		return "", err
	}
	parts, ok := c.parts[d.Name]
	if !ok {
		if parts, err = c.locator.drives.Partitions(d.Name); err != nil {
			return "", err
		}
		c.parts[d.Name] = parts
	}
	uuid := PartitionUUID(p)
	if seen, ok := c.locator.recall(place{d.Serial, uuid}); ok {
		if seen, ok = confirm(seen, parts); ok {
			return seen.DevicePath, nil
		}
	}
	return "", fmt.Errorf("the kernel does not show partition %s of drive %q where it was", uuid, d.Serial)
}
