package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof/spdk/lvol"
)

// Lvols are the slices of SPDK: a store on each drive, a logical volume in it for each
// partition. A volume has the partition's external ID for its name, which derives from
// the UID of the object, and an identity that SPDK gave it. That is recorded with the
// store's, and then goes before the name: what was recorded is never made anew, and
// nothing else is deleted.
type Lvols struct{ host *spdkdrive.Host }

var _ Carver = (*Lvols)(nil)

// NewLvols returns the slices on the drives of this host.
func NewLvols(host *spdkdrive.Host) *Lvols { return &Lvols{host: host} }

// Drive implements Carver. The drive may be the kernel's still, or again after a
// reboot; Find and Make take it to SPDK.
func (l *Lvols) Drive(ctx context.Context, serial string) (inventory.Drive, error) {
	d, err := l.host.Present(ctx, serial)
	if errors.Is(err, inventory.ErrNotFound) || errors.Is(err, inventory.ErrDuplicateSerial) {
		err = fmt.Errorf("%w: %w", ErrDriveMissing, err)
	}
	return d, err
}

func name(p *v1alpha1.NVMePartition) string { return identity.ExternalID(string(p.UID)) }

func slice(v lvol.Volume, store lvol.Store) carve.Volume {
	return carve.Volume{
		UUID: v.UUID, Name: v.Name, SizeBytes: int64(v.SizeBytes), DevicePath: v.DevicePath(), StoreName: store.Name, StoreUUID: store.UUID,
	}
}

// Find implements Carver.
func (l *Lvols) Find(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) (carve.Volume, error) {
	found, err := l.get(ctx, p)
	if err != nil || found != nil {
		return volumeOr(found), err
	}
	// SPDK may just not have the drive.
	err = l.host.Look(ctx, d.Serial, func(ctx context.Context) (err error) {
		found, err = l.get(ctx, p)
		return err
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%w: drive %q has no logical volume %s %s", ErrSliceMissing, d.Serial, name(p), SliceUUID(p))
	}
	return volumeOr(found), err
}

// get reads the volume, by its recorded identity if there is one; nil if SPDK has none
// now.
func (l *Lvols) get(ctx context.Context, p *v1alpha1.NVMePartition) (*carve.Volume, error) {
	if b := p.Status.Backend; Carved(p) {
		v, err := l.host.Volumes.Get(ctx, b.LvolUUID)
		switch {
		case errors.Is(err, lvol.ErrNotFound):
			return nil, nil
		case err != nil:
			return nil, err
		case v.StoreUUID != b.LvstoreUUID:
			return nil, fmt.Errorf("%w: logical volume %s is in store %s, recorded is %s", carve.ErrConflict, v.UUID, v.StoreUUID, b.LvstoreUUID)
		}
		out := slice(v, lvol.Store{Name: b.LvstoreName, UUID: b.LvstoreUUID})
		return &out, nil
	}
	stores, err := l.host.Volumes.Stores(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(stores, func(s lvol.Store) bool { return s.Name == spdkdrive.StoreName(p.Spec.ParentDeviceSerialNumber) })
	if i < 0 {
		return nil, nil
	}
	all, err := l.host.Volumes.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.StoreUUID == stores[i].UUID && v.Name == name(p) {
			out := slice(v, stores[i])
			return &out, nil
		}
	}
	return nil, nil
}

// Make implements Carver. A volume of the name that is there was made by an agent that
// died before it could record it.
func (l *Lvols) Make(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) (carve.Volume, error) {
	store, err := l.host.Prepare(ctx, d.Serial)
	if err != nil {
		return carve.Volume{}, err
	}
	if found, err := l.get(ctx, p); err != nil || found != nil {
		return volumeOr(found), err
	}
	defer l.host.Changed(d.Serial)
	v, err := l.host.Volumes.Ensure(ctx, lvol.Spec{StoreUUID: store.UUID, Name: name(p), SizeBytes: uint64(p.Spec.Size), Zero: true})
	if err != nil {
		return carve.Volume{}, carveError(d.Serial, err)
	}
	return slice(v, store), nil
}

// Grow implements Carver.
func (l *Lvols) Grow(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive, kept func(context.Context) ([]carve.Slice, error)) (out carve.Volume, err error) {
	err = l.host.Do(ctx, d.Serial, func(ctx context.Context) (err error) {
		out, err = l.grow(ctx, p, d, kept)
		return err
	})
	return out, err
}

func (l *Lvols) grow(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive, kept func(context.Context) ([]carve.Slice, error)) (carve.Volume, error) {
	now, err := l.get(ctx, p)
	if err == nil && now == nil {
		err = fmt.Errorf("%w: drive %q has no logical volume %s", ErrSliceMissing, d.Serial, name(p))
	}
	if err != nil || now.SizeBytes >= p.Spec.Size {
		return volumeOr(now), err
	}
	if err := l.roomFor(ctx, now, p.Spec.Size, d, kept); err != nil {
		return carve.Volume{}, err
	}
	defer l.host.Changed(d.Serial)
	v, err := l.host.Volumes.Grow(ctx, now.UUID, uint64(p.Spec.Size))
	if err != nil {
		return carve.Volume{}, carveError(d.Serial, err)
	}
	return slice(v, lvol.Store{Name: now.StoreName, UUID: now.StoreUUID}), nil
}

// roomFor refuses a growth after which the store could not hold the volumes that were
// placed on the drive before.
func (l *Lvols) roomFor(ctx context.Context, now *carve.Volume, size int64, d inventory.Drive, kept func(context.Context) ([]carve.Slice, error)) error {
	reserved, err := kept(ctx)
	if err != nil {
		return err
	}
	drive, err := l.host.Present(ctx, d.Serial)
	if err != nil {
		return err
	}
	survey, err := l.host.Survey(ctx, drive)
	if err != nil {
		return err
	}
	var sum int64
	for _, s := range reserved {
		if !slices.ContainsFunc(survey.Volumes, func(v carve.Volume) bool { return v.Name == s.Name }) {
			sum += s.SizeBytes
		}
	}
	if survey.LargestFree-sum < size-now.SizeBytes {
		return fmt.Errorf("drive %q: %w to grow logical volume %s from %d to %d bytes: %d bytes are free, and %d are kept for partitions that were placed on the drive",
			d.Serial, carve.ErrNoSpace, now.UUID, now.SizeBytes, size, survey.LargestFree, sum)
	}
	return nil
}

// Delete implements Carver. Before anything was recorded the volume may exist all the
// same. A drive that the kernel has, blank or refused, is not taken to SPDK for it.
func (l *Lvols) Delete(ctx context.Context, p *v1alpha1.NVMePartition, d inventory.Drive) error {
	if d.Bdev == "" && d.Name != "" {
		switch found := l.host.Prober.Probe(ctx, d); found.Verdict {
		case media.Blobstore:
		case media.Blank:
			return nil
		case media.Unreadable:
			return fmt.Errorf("drive %q: %w", d.Serial, found.Err)
		default:
			return fmt.Errorf("drive %q: %w: %s", d.Serial, carve.ErrForeign, found.Message)
		}
	}
	v, err := l.Find(ctx, p, d)
	switch {
	case errors.Is(err, ErrSliceMissing):
		return nil
	case err != nil:
		return err
	}
	defer l.host.Changed(d.Serial)
	if err := l.host.Volumes.Delete(ctx, v.UUID); err != nil {
		return carveError(d.Serial, err)
	}
	return l.host.Look(ctx, d.Serial, func(ctx context.Context) error {
		left, err := l.get(ctx, p)
		if err == nil && left != nil {
			err = fmt.Errorf("drive %q still has logical volume %s after its deletion", d.Serial, v.UUID)
		}
		return err
	})
}

// Release implements Carver.
func (l *Lvols) Release(ctx context.Context, serial string) (bool, error) {
	return l.host.Release(ctx, serial)
}

// Forget implements Carver: nothing is remembered.
func (*Lvols) Forget(string) {}

// Survey implements Carver: one read of all volumes.
func (l *Lvols) Survey(ctx context.Context) func(v1alpha1.Slice) (string, error) {
	all, err := l.host.Volumes.List(ctx)
	return func(s v1alpha1.Slice) (string, error) {
		p, wrong := partitionOf(s)
		if err := errors.Join(wrong, err); err != nil {
			return "", err
		}
		for _, v := range all {
			if v.UUID == SliceUUID(p) {
				return v.DevicePath(), nil
			}
		}
		return "", fmt.Errorf("SPDK does not show logical volume %s of drive %q", SliceUUID(p), p.Spec.ParentDeviceSerialNumber)
	}
}

// KnownDrives answers where the objects of the node's drives say that they are
// (spdkdrive.Config.Known).
func KnownDrives(cache client.Reader) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		var all v1alpha1.NVMeDeviceList
		if err := cache.List(ctx, &all); err != nil {
			return nil, fmt.Errorf("list drives of this node: %w", err)
		}
		out := map[string]string{}
		for _, d := range all.Items {
			out[d.Spec.SerialNumber] = d.Spec.PCIAddress
		}
		return out, nil
	}
}

// carveError puts what lvol answers into the terms of carve.
func carveError(serial string, err error) error {
	for from, to := range map[error]error{lvol.ErrNoSpace: carve.ErrNoSpace, lvol.ErrInUse: carve.ErrBusy, lvol.ErrConflict: carve.ErrConflict} {
		if errors.Is(err, from) {
			err = fmt.Errorf("%w: %w", to, err)
		}
	}
	return fmt.Errorf("drive %q: %w", serial, err)
}

func volumeOr(v *carve.Volume) carve.Volume {
	if v == nil {
		return carve.Volume{}
	}
	return *v
}
