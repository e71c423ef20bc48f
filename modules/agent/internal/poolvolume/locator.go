package poolvolume

import (
	"context"
	"errors"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/pool"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// ErrLost: the recorded zvol is not on its pool, or another one has its name.
var ErrLost = errors.New("recorded zvol is not on its pool")

// Locator finds the devices of volumes on the pools that this node owns.
type Locator struct {
	Pools *pool.Owner
	ZFS   *zfs.Manager
}

var _ volume.Finder = (*Locator)(nil)

// specOf is the zvol that the volume asks for.
func specOf(v *v1alpha1.Volume) zfs.Spec {
	return zfs.Spec{
		ID: identity.ExternalID(string(v.UID)), UID: string(v.UID), SizeBytes: v.Spec.Capacity,
		BlockSize: v.Spec.VolBlockSize, Compression: v.Spec.Compression,
	}
}

// find returns the volume's zvol, which must be the recorded one: ErrLost.
func (l *Locator) find(ctx context.Context, v *v1alpha1.Volume, p zfs.Pool) (zfs.Volume, error) {
	z, err := l.ZFS.Find(ctx, p, identity.ExternalID(string(v.UID)), string(v.UID))
	return recordedOne(v, z, err)
}

// recordedOne holds what was found against what is recorded.
func recordedOne(v *v1alpha1.Volume, z zfs.Volume, err error) (zfs.Volume, error) {
	guid := v.Status.DatasetGUID
	switch {
	case errors.Is(err, zfs.ErrNotFound), errors.Is(err, zfs.ErrForeign):
		return zfs.Volume{}, fmt.Errorf("%w: GUID %s: %w", ErrLost, guid, err)
	case err != nil:
		return zfs.Volume{}, err
	case guid != "" && z.GUID != guid:
		return zfs.Volume{}, fmt.Errorf("%w: %s has GUID %s, and %s is recorded", ErrLost, z.Dataset, z.GUID, guid)
	}
	return z, nil
}

// Device implements volume.Finder.
func (l *Locator) Device(ctx context.Context, s v1alpha1.Slice) (string, error) {
	v, err := volumeOf(s)
	if err != nil {
		return "", err
	}
	p, err := l.Pools.Pool(ctx, v.Spec.PoolGUID)
	if err != nil {
		return "", err
	}
	z, err := l.find(ctx, v, p)
	if err != nil {
		return "", err
	}
	d, err := l.ZFS.Device(ctx, z)
	return d.Path, err
}

// Survey implements volume.Finder: one read of each pool.
func (l *Locator) Survey(ctx context.Context) func(v1alpha1.Slice) (string, error) {
	type view struct {
		byUID map[string]zfs.Volume
		err   error
	}
	seen := map[v1alpha1.PoolGUID]view{}
	look := func(guid v1alpha1.PoolGUID) view {
		p, err := l.Pools.Pool(ctx, guid)
		if err != nil {
			return view{err: err}
		}
		sample, err := l.ZFS.Sample(ctx, p)
		out := view{byUID: map[string]zfs.Volume{}, err: err}
		for _, z := range sample.Volumes {
			if z.Dataset == p.Dataset(identity.ExternalID(z.UID)) {
				out.byUID[z.UID] = z
			}
		}
		return out
	}
	return func(s v1alpha1.Slice) (string, error) {
		v, err := volumeOf(s)
		if err != nil {
			return "", err
		}
		guid := v.Spec.PoolGUID
		if _, known := seen[guid]; !known {
			seen[guid] = look(guid)
		}
		if err := seen[guid].err; err != nil {
			return "", err
		}
		z, there := seen[guid].byUID[string(v.UID)]
		if !there {
			err = zfs.ErrNotFound
		}
		if z, err = recordedOne(v, z, err); err != nil {
			return "", err
		}
		d, err := l.ZFS.Device(ctx, z)
		return d.Path, err
	}
}

func volumeOf(s v1alpha1.Slice) (*v1alpha1.Volume, error) {
	v, ok := s.(*v1alpha1.Volume)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not on a pool", volume.ErrNoFinder, volume.Name(s))
	}
	return v, nil
}
