package filesystem

import (
	"context"
	"errors"
	"fmt"

	"github.com/distort-io/distort/modules/csi/internal/detach"
)

const (
	// smallestBlock is the least that a filesystem can grow by, in bytes: the
	// largest block that mkfs-options allows.
	smallestBlock = 4096
	// unusableTail is what may be left behind the last whole group: ext4 makes
	// none that has no room beside its own tables, of which 32 MiB are inodes
	// where mkfs-options asked for as many and as large ones as possible.
	unusableTail = 40 << 20
)

// Grow makes a filesystem that is mounted read-write as large as its device,
// whose size in bytes the caller knows, and returns the filesystem's size as it
// was read back. One that fills its device is left alone. ErrNotGrown names both
// sizes.
func (h *Host) Grow(ctx context.Context, m Mount, deviceSize int64) (int64, error) {
	name, args, err := growCommand(m)
	if err != nil {
		return 0, err
	}
	return detach.Join(ctx, &h.calls, "grow "+m.Source, func() (int64, error) {
		// Where each path has a device of its own, only the mounted one will do:
		// through another, resize2fs would take the filesystem for unmounted.
		if number, err := h.devices.Number(m.Source); err != nil || number != m.Number {
			return 0, errors.Join(fmt.Errorf("%w: %s is not the device of %s but %s", ErrNotMounted, m.Source, m, number), err)
		}
		before, err := h.filesystemSize(m)
		if err != nil || deviceSize-before < smallestBlock {
			return before, err
		}
		if _, err := h.runner.Run(ctx, name, args...); err != nil {
			return 0, fmt.Errorf("grow %s: %w", m.Source, err)
		}
		after, err := h.filesystemSize(m)
		if err == nil && deviceSize-after > unusableTail {
			err = fmt.Errorf("%w: %s on %s has %d bytes after %s, had %d, the device has %d", ErrNotGrown, m.FSType, m.Source, after, name, before, deviceSize)
		}
		return after, err
	})
}

func (h *Host) filesystemSize(m Mount) (int64, error) {
	size, err := h.devices.FilesystemSize(Type(m.FSType), m.Source, m.Path)
	if err != nil {
		return 0, fmt.Errorf("size of the filesystem on %s: %w", m.Source, err)
	}
	return size, nil
}

func growCommand(m Mount) (name string, args []string, err error) {
	switch Type(m.FSType) {
	case Ext4:
		return "resize2fs", []string{"--", m.Source}, nil
	case XFS:
		return "xfs_growfs", []string{"-d", "--", m.Path}, nil
	}
	return "", nil, fmt.Errorf("%w: filesystem %q cannot be grown, only %s and %s", ErrInvalid, m.FSType, Ext4, XFS)
}
