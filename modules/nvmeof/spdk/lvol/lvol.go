package lvol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Errors that callers branch on with errors.Is, besides those of nvmeof and rpc.
var (
	// ErrNotFound: there is no such store, volume or device.
	ErrNotFound = errors.New("not found in SPDK")
	// ErrLost: a store or volume that existed is not there. It is never made anew.
	ErrLost = errors.New("recorded but not there: data may be lost")
	// ErrConflict: something else has the name.
	ErrConflict = errors.New("exists with other properties")
	// ErrInUse: the volume is exported or otherwise claimed, or the device is.
	ErrInUse = errors.New("in use")
	// ErrHasClones: the snapshot has more than one clone.
	ErrHasClones = errors.New("snapshot has clones")
	// ErrNoSpace: the store has too little room.
	ErrNoSpace = errors.New("no space in the store")
)

// Volumes are the stores and volumes of one target. All methods may be called from
// many goroutines.
type Volumes struct {
	client *rpc.Client
}

// New returns the stores and volumes behind the client, which must be the one that
// the spdk.Target of the same target has: they share what keeps writers apart.
func New(client *rpc.Client) *Volumes { return &Volumes{client: client} }

// Volume is a logical volume, snapshots included.
type Volume struct {
	UUID      string // lower case; also the name of its bdev
	Name      string
	StoreUUID string
	SizeBytes uint64
	// Thin tells that space is taken when it is written. The origin of a snapshot
	// is thin from then on.
	Thin     bool
	Snapshot bool
	// Origin is the name of the snapshot that a clone is based on. The origin of a
	// snapshot is itself a clone of it.
	Origin string
	// Claimed tells that the volume is exported or otherwise open.
	Claimed bool
	Limits  Limits
}

// DevicePath returns the path by which the volume is exported.
func (v Volume) DevicePath() string { return spdk.DevicePath(v.UUID) }

func volume(b wire.Bdev) Volume {
	l := b.Driver.Lvol
	return Volume{UUID: b.UUID, Name: b.Alias(), StoreUUID: l.StoreUUID, SizeBytes: b.Size(), Thin: l.Thin,
		Snapshot: l.Snapshot, Origin: l.BaseSnapshot, Claimed: b.Claimed, Limits: b.Limits}
}

// Get reads the volume with this UUID. It answers ErrNotFound if there is none.
func (v *Volumes) Get(ctx context.Context, uuid string) (Volume, error) {
	if _, err := nvmeof.ParseUUID(uuid); err != nil {
		return Volume{}, err
	}
	found, err := v.find(ctx, uuid)
	if err == nil && found == nil {
		err = fmt.Errorf("volume %s: %w", uuid, ErrNotFound)
	}
	if err != nil {
		return Volume{}, err
	}
	return *found, nil
}

// List reads all volumes of all stores.
func (v *Volumes) List(ctx context.Context) ([]Volume, error) {
	all, err := wire.Bdevs(ctx, v.client)
	if err != nil {
		return nil, err
	}
	var out []Volume
	for _, b := range all {
		if b.Driver.Lvol != nil {
			out = append(out, volume(b))
		}
	}
	return out, nil
}

// find reads the volume with this UUID or alias; nil if there is none.
func (v *Volumes) find(ctx context.Context, name string) (*Volume, error) {
	b, err := wire.FindBdev(ctx, v.client, name)
	if err != nil || b == nil {
		return nil, err
	}
	if b.Driver.Lvol == nil {
		return nil, fmt.Errorf("%w: bdev %s is no logical volume", ErrConflict, b.Name)
	}
	found := volume(*b)
	return &found, nil
}

// maxName is the longest name of a store or volume in bytes.
const maxName = 63

// checkName refuses names that SPDK refuses or that look like two names.
func checkName(field, name string) error {
	rule := ""
	switch {
	case name == "":
		rule = "must not be empty"
	case len(name) > maxName:
		rule = "must have at most 63 bytes"
	case strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}) >= 0:
		rule = "must consist of letters, digits and . _ -"
	}
	if rule != "" {
		return &nvmeof.FieldError{Field: field, Value: name, Rule: rule}
	}
	return nil
}

// meaning puts SPDK's refusals into the terms that callers branch on.
func meaning(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case errors.Is(err, syscall.EBUSY):
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return err
}
