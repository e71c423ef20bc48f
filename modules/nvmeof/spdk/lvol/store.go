package lvol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// Store is an lvstore.
type Store struct {
	UUID          string `json:"uuid"`
	Name          string `json:"name"`
	Bdev          string `json:"base_bdev"`
	ClusterSize   uint64 `json:"cluster_size"` // bytes
	TotalClusters uint64 `json:"total_data_clusters"`
	FreeClusters  uint64 `json:"free_clusters"`
}

// FreeBytes returns what is not taken yet.
func (s Store) FreeBytes() uint64 { return s.FreeClusters * s.ClusterSize }

// TotalBytes returns what volumes can take in all.
func (s Store) TotalBytes() uint64 { return s.TotalClusters * s.ClusterSize }

// StoreSpec is a store that should exist.
type StoreSpec struct {
	// Device identifies the device, normally by its serial number; the store is
	// named after it.
	Device string
	// Bdev is SPDK's name for the device.
	Bdev string
	// UUID is that of the store if it was recorded. Then it is never made anew.
	UUID string
	// Zero writes zeros to the whole device when the store is made. Otherwise volumes
	// may have what was there before.
	Zero bool
}

// StoreName returns the name of the store on a device.
func StoreName(device string) string { return "lvs_" + device }

// Stores reads all stores.
func (v *Volumes) Stores(ctx context.Context) ([]Store, error) {
	var all []Store
	err := v.client.Call(ctx, "bdev_lvol_get_lvstores", nil, &all)
	return all, err
}

// EnsureStore returns the store of the device. Where there is none and none was
// recorded it is made, which destroys what is on the device: that it may be is for
// the caller to know.
func (v *Volumes) EnsureStore(ctx context.Context, spec StoreSpec) (Store, error) {
	name := StoreName(spec.Device)
	if err := checkName("device", name); err != nil {
		return Store{}, err
	}
	if spec.UUID != "" {
		if _, err := nvmeof.ParseUUID(spec.UUID); err != nil {
			return Store{}, err
		}
	}
	store, err := v.ensureStore(ctx, name, spec)
	if err != nil {
		err = fmt.Errorf("store %s: %w", name, err)
	}
	return store, err
}

func (v *Volumes) ensureStore(ctx context.Context, name string, spec StoreSpec) (Store, error) {
	writer, err := v.client.Begin(ctx, wire.ObjectStore(name))
	if err != nil {
		return Store{}, err
	}
	defer writer.End()
	if found, err := v.findStore(ctx, name, spec); err != nil || found != nil {
		return deref(found), err
	}
	// What is on the device may still be being looked at.
	if err := v.client.Call(ctx, "bdev_wait_for_examine", nil, nil); err != nil {
		return Store{}, err
	}
	found, err := v.findStore(ctx, name, spec)
	switch {
	case err != nil || found != nil:
		return deref(found), err
	case spec.UUID != "":
		return Store{}, fmt.Errorf("%w: no store has the UUID %s", ErrLost, spec.UUID)
	}
	giveBack, err := writer.Also(ctx, wire.ObjectBdev(spec.Bdev))
	if err != nil {
		return Store{}, err
	}
	defer giveBack()
	bdev, err := wire.FindBdev(ctx, v.client, spec.Bdev)
	switch {
	case err != nil:
		return Store{}, err
	case bdev == nil:
		return Store{}, fmt.Errorf("%w: bdev %s", ErrNotFound, spec.Bdev)
	case bdev.Claimed:
		return Store{}, fmt.Errorf("%w: bdev %s is claimed", ErrInUse, spec.Bdev)
	}
	refused := writer.Call(ctx, "bdev_lvol_create_lvstore", struct {
		Bdev  string `json:"bdev_name"`
		Name  string `json:"lvs_name"`
		Clear string `json:"clear_method,omitempty"`
	}{spec.Bdev, name, clearMethod(spec.Zero)}, nil)
	found, err = v.findStore(ctx, name, spec)
	if found == nil && refused != nil {
		return Store{}, errors.Join(meaning(refused), err)
	}
	if err == nil && found == nil {
		err = fmt.Errorf("read back: %w", ErrNotFound)
	}
	return deref(found), err
}

// findStore reads the store, by UUID if that was recorded, and checks that it is
// what the spec says; nil if there is none.
func (v *Volumes) findStore(ctx context.Context, name string, spec StoreSpec) (*Store, error) {
	all, err := v.Stores(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s Store) bool { return s.Name == name || s.UUID == spec.UUID })
	if i < 0 {
		return nil, nil
	}
	switch found := &all[i]; {
	case spec.UUID != "" && found.UUID != spec.UUID:
		return nil, fmt.Errorf("%w: it has the UUID %s, recorded is %s", ErrConflict, found.UUID, spec.UUID)
	case found.Name != name:
		return nil, fmt.Errorf("%w: the store with the UUID %s is named %s", ErrConflict, found.UUID, found.Name)
	case found.Bdev != spec.Bdev:
		return nil, fmt.Errorf("%w: it is on bdev %s, not on %s", ErrConflict, found.Bdev, spec.Bdev)
	default:
		return found, nil
	}
}

// DeleteStore deletes an empty store by its UUID, so that the device can be given
// back. No store is a success; one with volumes answers ErrInUse.
func (v *Volumes) DeleteStore(ctx context.Context, uuid string) error {
	if _, err := nvmeof.ParseUUID(uuid); err != nil {
		return err
	}
	store, err := v.store(ctx, uuid)
	if err != nil || store == nil {
		return err
	}
	if err := v.deleteStore(ctx, *store); err != nil {
		return fmt.Errorf("delete store %s: %w", store.Name, err)
	}
	return nil
}

func (v *Volumes) deleteStore(ctx context.Context, store Store) error {
	writer, err := v.client.Begin(ctx, wire.ObjectStore(store.Name))
	if err != nil {
		return err
	}
	defer writer.End()
	all, err := v.List(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(x Volume) bool { return x.StoreUUID == store.UUID }); i >= 0 {
		return fmt.Errorf("%w: it has volume %s", ErrInUse, all[i].Name)
	}
	refused := writer.Call(ctx, "bdev_lvol_delete_lvstore", struct {
		UUID string `json:"uuid"`
	}{store.UUID}, nil)
	left, err := v.store(ctx, store.UUID)
	switch {
	case err != nil:
		return errors.Join(meaning(refused), err)
	case left == nil || errors.Is(refused, syscall.ENODEV):
		return nil
	case refused != nil:
		return meaning(refused)
	}
	return fmt.Errorf("%w: it is still there", ErrConflict)
}

// store reads the store with this UUID; nil if there is none.
func (v *Volumes) store(ctx context.Context, uuid string) (*Store, error) {
	all, err := v.Stores(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(s Store) bool { return s.UUID == uuid }); i >= 0 {
		return &all[i], nil
	}
	return nil, nil
}

// clearMethod is how SPDK clears what it takes or leaves; "" is its default, unmap,
// after which many drives do not return zeros.
func clearMethod(zero bool) string {
	if zero {
		return "write_zeroes"
	}
	return ""
}

func deref(s *Store) Store {
	if s == nil {
		return Store{}
	}
	return *s
}
