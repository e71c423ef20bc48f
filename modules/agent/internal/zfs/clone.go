package zfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Clone makes sure that the zvol exists as a clone of the snapshot, and returns it. It
// is at least as large as the spec asks, and its space is reserved as that of a zvol
// which was made anew. One that exists already stays what it is. Errors: ErrNotFound
// of the snapshot, ErrForeign, ErrNoSpace; ErrRefused: it asks for another block size
// than its source has.
func (m *Manager) Clone(ctx context.Context, p Pool, of SnapshotSpec, s Spec) (Volume, error) {
	v, err := onPool(ctx, m, p, func(ctx context.Context) (Volume, error) { return m.clone(ctx, p, of, s) })
	if err != nil {
		return Volume{}, fmt.Errorf("clone zvol %s from snapshot %s on pool %s: %w", s.ID, of.ID, p, err)
	}
	return v, nil
}

func (m *Manager) clone(ctx context.Context, p Pool, of SnapshotSpec, s Spec) (Volume, error) {
	v, err := m.find(ctx, p, s.ID, s.UID)
	if errors.Is(err, ErrNotFound) {
		var source Snapshot
		if source, err = m.findSnapshot(ctx, p, of); err != nil {
			return Volume{}, err
		}
		if err := m.sameBlocks(ctx, source, s.BlockSize); err != nil {
			return Volume{}, err
		}
		args := []string{"clone", "-o", UIDProperty + "=" + s.UID, "-o", "volmode=dev"}
		if s.Compression != "" {
			args = append(args, "-o", "compression="+s.Compression)
		}
		if _, err := m.run(ctx, "zfs", append(args, "--", source.Name, p.Dataset(s.ID))...); err != nil {
			return Volume{}, err
		}
		v, err = m.find(ctx, p, s.ID, s.UID)
	}
	if err != nil {
		return Volume{}, err
	}
	// A clone begins with the snapshot's size and without a reservation.
	if v.SizeBytes < s.SizeBytes {
		if _, err := m.run(ctx, "zfs", "set", "volsize="+strconv.FormatInt(s.SizeBytes, 10), v.Dataset); err != nil {
			return Volume{}, err
		}
	}
	if _, err := m.run(ctx, "zfs", "set", "refreservation=auto", v.Dataset); err != nil {
		return Volume{}, err
	}
	if v, err = m.find(ctx, p, s.ID, s.UID); err == nil && v.SizeBytes < s.SizeBytes {
		err = fmt.Errorf("%s has %d bytes after it was grown to %d", v.Dataset, v.SizeBytes, s.SizeBytes)
	}
	return v, err
}

// sameBlocks refuses blocks of another size than those of what is cloned; 0 asks for
// none.
func (m *Manager) sameBlocks(ctx context.Context, source Snapshot, want int32) error {
	if want == 0 {
		return nil
	}
	zvol, _, _ := strings.Cut(source.Name, "@")
	found, err := m.get(ctx, properties, "--", zvol)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("ZFS answered %+v when it was asked for %s", found, zvol)
	}
	switch has, err := found[0].number("volblocksize"); {
	case err != nil:
		return err
	case has != int64(want):
		return fmt.Errorf("%w: a clone has the blocks of its source, which are of %d bytes, and asked for are %d", ErrRefused, has, want)
	}
	return nil
}

// disinherit has clones take over the snapshots that they were cloned from, and those
// that are older, so that the zvol can go without them. DependantsError: there are
// snapshots which no clone can take.
func (m *Manager) disinherit(ctx context.Context, p Pool, name string) error {
	for {
		left, err := m.snapshots(ctx, p, "-d", "1", "-t", "snapshot", snapshotProperties, "--", name)
		if err != nil || len(left) == 0 {
			return err
		}
		heir, err := m.heir(ctx, p, left)
		switch {
		case err != nil:
			return err
		case heir == "":
			return &DependantsError{Dataset: name, Snapshots: left}
		}
		// promote takes no "--", and no name of a dataset begins with a dash.
		if _, err := m.run(ctx, "zfs", "promote", heir); err != nil {
			return err
		}
		switch after, err := m.snapshots(ctx, p, "-d", "1", "-t", "snapshot", snapshotProperties, "--", name); {
		case err != nil:
			return err
		case len(after) >= len(left):
			return fmt.Errorf("%s has as many snapshots after %s was promoted", name, heir)
		}
	}
}

// heir is the zvol of DISTORT that was cloned from the latest of the snapshots which
// has such a clone: it can take over that one and all that are older. "" means that
// there is none.
func (m *Manager) heir(ctx context.Context, p Pool, all []Snapshot) (string, error) {
	for _, s := range slices.Backward(all) {
		for _, clone := range s.Clones {
			if !strings.HasPrefix(clone, p.Dataset("")) {
				continue
			}
			found, err := m.get(ctx, properties, "--", clone)
			if err != nil {
				return "", err
			}
			if len(found) == 1 && found[0].values[UIDProperty] != "" {
				return clone, nil
			}
		}
	}
	return "", nil
}
