package lvol

import (
	"context"
	"errors"
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Spec is a volume that should exist.
type Spec struct {
	StoreUUID string
	Name      string
	// SizeBytes is at least how large it is; SPDK rounds up to clusters.
	SizeBytes uint64
	// Thin takes space when it is written. It matters when the volume is made.
	Thin bool
	// Zero writes zeros to what the volume leaves when it is deleted, so that the next
	// one does not have its data. It matters when the volume is made.
	Zero bool
	// UUID is that of the volume if it was recorded. Then it is never made anew.
	UUID string
}

func (s Spec) validate() error {
	if _, err := nvmeof.ParseUUID(s.StoreUUID); err != nil {
		return err
	}
	if err := checkName("name", s.Name); err != nil {
		return err
	}
	if s.UUID != "" {
		if _, err := nvmeof.ParseUUID(s.UUID); err != nil {
			return err
		}
	}
	if s.SizeBytes == 0 {
		return &nvmeof.FieldError{Field: "sizeBytes", Value: "0", Rule: "must be positive"} // SPDK would make it
	}
	return nil
}

// Ensure returns the volume, makes it if there is none and none was recorded, and
// grows one that is too small. A larger one stays as it is.
func (v *Volumes) Ensure(ctx context.Context, spec Spec) (Volume, error) {
	if err := spec.validate(); err != nil {
		return Volume{}, err
	}
	return v.inStore(ctx, spec.StoreUUID, spec.Name, func(c *change) (*Volume, error) {
		found, err := c.recorded(spec)
		if err == nil && found == nil {
			found, err = c.create(spec)
		}
		if err != nil {
			return nil, err
		}
		if found.Snapshot {
			return nil, fmt.Errorf("%w: it is a snapshot", ErrConflict)
		}
		giveBack, err := c.writer.Also(ctx, wire.ObjectBdev(found.UUID))
		if err != nil {
			return nil, err
		}
		defer giveBack()
		return c.grow(*found, spec.SizeBytes)
	})
}

// Grow makes the volume at least so large, while it is in use too, and answers what
// was read back. A larger one stays as it is: a smaller size is never sent.
func (v *Volumes) Grow(ctx context.Context, uuid string, sizeBytes uint64) (Volume, error) {
	return v.ofVolume(ctx, uuid, func(c *change, now Volume) (*Volume, error) {
		if now.Snapshot {
			return nil, fmt.Errorf("%w: a snapshot cannot grow", ErrConflict)
		}
		return c.grow(now, sizeBytes)
	})
}

// change is one change of a store while it has the turn.
type change struct {
	v      *Volumes
	ctx    context.Context
	store  Store
	writer *rpc.Change
}

// inStore runs body as the only change of the store. what is for the error.
func (v *Volumes) inStore(ctx context.Context, storeUUID, what string, body func(*change) (*Volume, error)) (Volume, error) {
	store, err := v.store(ctx, storeUUID)
	if err != nil {
		return Volume{}, err
	}
	if store == nil {
		return Volume{}, fmt.Errorf("store %s: %w", storeUUID, ErrNotFound)
	}
	writer, err := v.client.Begin(ctx, wire.ObjectStore(store.Name))
	if err != nil {
		return Volume{}, err
	}
	defer writer.End()
	out, err := body(&change{v: v, ctx: ctx, store: *store, writer: writer})
	if err != nil {
		return Volume{}, fmt.Errorf("volume %s in store %s: %w", what, store.Name, err)
	}
	return *out, nil
}

// ofVolume runs body as the only change of the volume and of its store. The volume
// is read when that is so.
func (v *Volumes) ofVolume(ctx context.Context, uuid string, body func(*change, Volume) (*Volume, error)) (Volume, error) {
	now, err := v.Get(ctx, uuid)
	if err != nil {
		return Volume{}, err
	}
	return v.inStore(ctx, now.StoreUUID, now.Name, func(c *change) (*Volume, error) {
		giveBack, err := c.writer.Also(ctx, wire.ObjectBdev(uuid))
		if err != nil {
			return nil, err
		}
		defer giveBack()
		now, err := v.Get(ctx, uuid)
		if err != nil {
			return nil, err
		}
		return body(c, now)
	})
}

// recorded reads the volume by its UUID if that was recorded, otherwise by its
// name; nil if there is none and there may be none.
func (c *change) recorded(spec Spec) (*Volume, error) {
	if spec.UUID == "" {
		return c.named(spec.Name)
	}
	found, err := c.v.find(c.ctx, spec.UUID)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, fmt.Errorf("%w: no volume has the UUID %s", ErrLost, spec.UUID)
	case found.StoreUUID != c.store.UUID:
		return nil, fmt.Errorf("%w: the volume with the UUID %s is in store %s", ErrConflict, spec.UUID, found.StoreUUID)
	}
	return found, nil
}

// named reads the volume of this name in the store; nil if there is none.
func (c *change) named(name string) (*Volume, error) {
	return c.v.find(c.ctx, c.store.Name+"/"+name)
}

// makes calls a method that makes the volume of this name, and reads that. Who
// finds it there after an error has what was wanted: nobody else makes volumes.
func (c *change) makes(name, method string, params any) (*Volume, error) {
	refused := c.writer.Call(c.ctx, method, params, nil)
	found, err := c.named(name)
	switch {
	case found != nil:
		return found, nil
	case refused != nil:
		return nil, errors.Join(meaning(refused), err)
	case err == nil:
		err = fmt.Errorf("read back: %w", ErrNotFound)
	}
	return nil, err
}

func (c *change) create(spec Spec) (*Volume, error) {
	size, err := c.size(spec.SizeBytes)
	if err != nil {
		return nil, err
	}
	return c.makes(spec.Name, "bdev_lvol_create", struct {
		Store string `json:"uuid"`
		Name  string `json:"lvol_name"`
		Thin  bool   `json:"thin_provision"`
		Clear string `json:"clear_method,omitempty"`
		sized
	}{c.store.UUID, spec.Name, spec.Thin, clearMethod(spec.Zero), size})
}

// grow sends a larger size, and answers what was read back.
func (c *change) grow(now Volume, sizeBytes uint64) (*Volume, error) {
	if now.SizeBytes >= sizeBytes {
		return &now, nil
	}
	size, err := c.size(sizeBytes)
	if err != nil {
		return nil, err
	}
	refused := c.writer.Call(c.ctx, "bdev_lvol_resize", struct {
		UUID string `json:"name"`
		sized
	}{now.UUID, size}, nil)
	after, err := c.v.Get(c.ctx, now.UUID)
	switch {
	case err != nil:
		return nil, errors.Join(meaning(refused), err)
	case after.SizeBytes >= sizeBytes:
		return &after, nil
	case refused != nil:
		return nil, meaning(refused)
	}
	return nil, fmt.Errorf("%w: it has %d bytes after it was grown to %d", ErrConflict, after.SizeBytes, sizeBytes)
}

// sized is a size as the target's version wants it: in MiB since v23.05.
type sized struct {
	Bytes uint64 `json:"size,omitempty"`
	MiB   uint64 `json:"size_in_mib,omitempty"`
}

const mib = 1 << 20

func (c *change) size(bytes uint64) (sized, error) {
	version, err := c.v.client.Version(c.ctx)
	if err != nil {
		return sized{}, err
	}
	up := bytes/mib + min(bytes%mib, 1)
	if version.AtLeast(23, 5) {
		return sized{MiB: up}, nil
	}
	return sized{Bytes: up * mib}, nil
}
