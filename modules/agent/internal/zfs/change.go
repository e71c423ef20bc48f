package zfs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Create makes sure that the zvol exists, and returns it. One that exists already
// stays as it is, whatever its size. ErrForeign: the name is taken by another one.
func (m *Manager) Create(ctx context.Context, p Pool, s Spec) (Volume, error) {
	v, err := onPool(ctx, m, p, func(ctx context.Context) (Volume, error) { return m.create(ctx, p, s) })
	if err != nil {
		return Volume{}, fmt.Errorf("make zvol %s on pool %s: %w", s.ID, p, err)
	}
	return v, nil
}

func (m *Manager) create(ctx context.Context, p Pool, s Spec) (Volume, error) {
	v, err := m.find(ctx, p, s.ID, s.UID)
	if !errors.Is(err, ErrNotFound) {
		return v, err
	}
	for _, parent := range []string{p.Name + root, p.Name + blocks} {
		if err := m.parent(ctx, parent); err != nil {
			return Volume{}, err
		}
	}
	// Nothing of this node shall look for partitions in it.
	args := []string{"create", "-V", strconv.FormatInt(s.SizeBytes, 10), "-o", UIDProperty + "=" + s.UID, "-o", "volmode=dev"}
	if s.BlockSize != 0 {
		args = append(args, "-o", "volblocksize="+strconv.FormatInt(int64(s.BlockSize), 10))
	}
	if s.Compression != "" {
		args = append(args, "-o", "compression="+s.Compression)
	}
	if _, err := m.run(ctx, "zfs", append(args, "--", p.Dataset(s.ID))...); err != nil {
		return Volume{}, err
	}
	v, err = m.find(ctx, p, s.ID, s.UID)
	if err == nil && v.SizeBytes < s.SizeBytes {
		err = fmt.Errorf("%s has %d bytes after it was made with %d", v.Dataset, v.SizeBytes, s.SizeBytes)
	}
	return v, err
}

// parent makes sure that a dataset exists which holds others. It is never mounted.
func (m *Manager) parent(ctx context.Context, name string) error {
	_, err := m.run(ctx, "zfs", "create", "-u", "-o", "canmount=off", "-o", "mountpoint=none", "--", name)
	if errors.Is(err, ErrExists) {
		return nil
	}
	return err
}

// Grow makes the zvol at least as large as the spec asks, while it is in use, and
// returns it as it was read back. It is never made smaller.
func (m *Manager) Grow(ctx context.Context, p Pool, s Spec) (Volume, error) {
	v, err := onPool(ctx, m, p, func(ctx context.Context) (Volume, error) {
		v, err := m.find(ctx, p, s.ID, s.UID)
		if err != nil || v.SizeBytes >= s.SizeBytes {
			return v, err
		}
		if _, err := m.run(ctx, "zfs", "set", "volsize="+strconv.FormatInt(s.SizeBytes, 10), v.Dataset); err != nil {
			return Volume{}, err
		}
		if v, err = m.find(ctx, p, s.ID, s.UID); err == nil && v.SizeBytes < s.SizeBytes {
			err = fmt.Errorf("%s has %d bytes after it was grown to %d", v.Dataset, v.SizeBytes, s.SizeBytes)
		}
		return v, err
	})
	if err != nil {
		return Volume{}, fmt.Errorf("grow zvol %s on pool %s: %w", s.ID, p, err)
	}
	return v, nil
}

// Destroy makes sure that the zvol does not exist, and reads back that it is gone.
// guid is its recorded GUID, or "" when none was recorded. A zvol of that name with
// another GUID and another owner is not this one, and stays. ErrBusy: something has
// it open. DependantsError: it has snapshots that no clone can take over. ErrForeign:
// GUID and owner contradict each other, which a person has to settle.
func (m *Manager) Destroy(ctx context.Context, p Pool, s Spec, guid string) error {
	_, err := onPool(ctx, m, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, m.destroy(ctx, p, s, guid) })
	if err != nil {
		return fmt.Errorf("destroy zvol %s on pool %s: %w", s.ID, p, err)
	}
	return nil
}

func (m *Manager) destroy(ctx context.Context, p Pool, s Spec, guid string) error {
	switch v, err := m.find(ctx, p, s.ID, s.UID); {
	case errors.Is(err, ErrNotFound):
		return nil
	case errors.Is(err, ErrForeign) && v.GUID != guid:
		return nil
	case err != nil:
		return err
	case guid != "" && v.GUID != guid:
		return otherGUID(v.Dataset, v.GUID, guid)
	}
	if err := m.disinherit(ctx, p, p.Dataset(s.ID)); err != nil {
		return err
	}
	if _, err := m.run(ctx, "zfs", "destroy", "--", p.Dataset(s.ID)); err != nil {
		return err
	}
	switch _, err := m.find(ctx, p, s.ID, s.UID); {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read back: %w", err)
	}
	return fmt.Errorf("%s is still there after it was destroyed", p.Dataset(s.ID))
}

// Device returns the block device of the zvol; it awaits the link that udev makes
// for it.
func (m *Manager) Device(ctx context.Context, v Volume) (Device, error) {
	var last error
	for range linkSteps {
		d, err := locked(ctx, m.opens, v.Dataset, func(ctx context.Context) (Device, error) { return m.devices.Lookup(ctx, v.Dataset) })
		if err == nil || !errors.Is(err, ErrNoDevice) {
			return d, err
		}
		last = err
		if err := m.wait(ctx, linkStep); err != nil {
			return Device{}, fmt.Errorf("wait for the device of %s: %w (%w)", v.Dataset, err, last)
		}
	}
	return Device{}, last
}
