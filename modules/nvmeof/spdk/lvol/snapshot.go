package lvol

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// Snapshot returns the snapshot of that name of the volume, and makes it if there
// is none. A snapshot of that name of another volume answers ErrConflict.
func (v *Volumes) Snapshot(ctx context.Context, uuid, name string) (Volume, error) {
	if err := checkName("name", name); err != nil {
		return Volume{}, err
	}
	return v.ofVolume(ctx, uuid, func(c *change, now Volume) (*Volume, error) {
		found, err := c.named(name)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
			return found, c.descends(now, *found)
		case now.Snapshot:
			return nil, fmt.Errorf("%w: it is a snapshot itself", ErrConflict)
		}
		return c.makes(name, "bdev_lvol_snapshot", struct {
			UUID string `json:"lvol_name"`
			Name string `json:"snapshot_name"`
		}{now.UUID, name})
	})
}

// Clone returns the clone of that name of the snapshot, and makes it if there is
// none. The clone is thin and as large as the snapshot.
func (v *Volumes) Clone(ctx context.Context, snapshotUUID, name string) (Volume, error) {
	if err := checkName("name", name); err != nil {
		return Volume{}, err
	}
	return v.ofVolume(ctx, snapshotUUID, func(c *change, now Volume) (*Volume, error) {
		if !now.Snapshot {
			return nil, fmt.Errorf("%w: it is not a snapshot", ErrConflict)
		}
		found, err := c.named(name)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
			return found, c.descends(*found, now)
		}
		return c.makes(name, "bdev_lvol_clone", struct {
			UUID string `json:"snapshot_name"`
			Name string `json:"clone_name"`
		}{now.UUID, name})
	})
}

// descends fails unless the volume is based on the snapshot, directly or through
// later snapshots.
func (c *change) descends(v, snapshot Volume) error {
	for at := v; at.Origin != ""; {
		if at.Origin == snapshot.Name && snapshot.Snapshot {
			return nil
		}
		next, err := c.named(at.Origin)
		if err != nil {
			return err
		}
		if next == nil || next.UUID == v.UUID {
			break
		}
		at = *next
	}
	return fmt.Errorf("%w: %s is not based on %s", ErrConflict, v.Name, snapshot.Name)
}

// Delete deletes the volume or snapshot with this UUID, and reads back that it is
// gone. None is a success. One that is exported, or claimed by anything else, answers
// ErrInUse: SPDK would delete it under its hosts. A snapshot with one clone goes, and
// its data stays with that; one with more answers ErrHasClones.
func (v *Volumes) Delete(ctx context.Context, uuid string) error {
	_, err := v.ofVolume(ctx, uuid, func(c *change, now Volume) (*Volume, error) {
		// Nobody can export it between this look and the end of it.
		if err := c.unused(uuid); err != nil {
			return nil, err
		}
		refused := c.writer.Call(ctx, "bdev_lvol_delete", struct {
			UUID string `json:"name"`
		}{uuid}, nil)
		left, err := v.find(ctx, uuid)
		switch {
		case err != nil:
			return nil, errors.Join(meaning(refused), err)
		case left == nil:
			return &now, nil
		case errors.Is(refused, syscall.EPERM):
			return nil, fmt.Errorf("%w: %w", ErrHasClones, refused)
		case refused != nil:
			return nil, meaning(refused)
		}
		return nil, fmt.Errorf("%w: it is still there", ErrConflict)
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// unused fails if the volume is exported or claimed.
func (c *change) unused(uuid string) error {
	all, err := wire.Subsystems(c.ctx, c.v.client)
	if err != nil {
		return err
	}
	if nqn, nsid := wire.Exporting(all, uuid); nqn != "" {
		return fmt.Errorf("%w: it is namespace %d of %s", ErrInUse, nsid, nqn)
	}
	now, err := c.v.Get(c.ctx, uuid)
	if err != nil {
		return err
	}
	if now.Claimed {
		return fmt.Errorf("%w: something in SPDK has claimed it", ErrInUse)
	}
	return nil
}
