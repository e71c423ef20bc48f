// Package carve says what it means to cut a drive into volumes: the
// VolumeManager interface, its values and its errors. Implementations are in
// sub-packages; gpt makes GPT partitions for the kernel target.
//
// A volume on a drive is identified by a UUID that is derived from the volume's
// UID, never by a name or an index, so that no other volume can be mistaken for
// it. Every method may be repeated after a crash at any point.
package carve

import (
	"context"
	"errors"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// Slice is a volume that should exist on a drive.
type Slice struct {
	// UUID is its identity on the drive (identity.PartitionUUID).
	UUID string
	// Name is the volume's external ID (identity.ExternalID): a label for people.
	Name string
	// SizeBytes is its exact size, a multiple of capacity.Unit.
	SizeBytes int64
}

// Volume is a slice that exists on a drive.
type Volume struct {
	UUID       string // lower case
	Name       string
	Number     int // of the partition; changes when a volume is deleted and made again
	StartBytes int64
	SizeBytes  int64
	// DevicePath is the block device; empty while the kernel does not know it.
	DevicePath string
	Dev        inventory.DevNum // of DevicePath
	// StoreName and StoreUUID are the store of a logical volume, which has no number
	// and no start; empty for a partition.
	StoreName, StoreUUID string
}

// Survey is one look at all of a drive's table.
type Survey struct {
	// Volumes are DISTORT's, by their start.
	Volumes []Volume
	// Others describes, one by one, the entries that DISTORT did not make.
	Others []string
	// LargestFree is the largest volume in bytes that Create could still make.
	LargestFree int64
}

// VolumeManager cuts drives into volumes. Changes of one drive happen one at a
// time. When the context ends, a method returns, but the drive stays locked until
// what it started has really ended.
type VolumeManager interface {
	// Init prepares a blank drive. A drive that is prepared already stays as it is;
	// one with anything else on it is refused with ErrForeign or ErrDamaged.
	Init(ctx context.Context, d inventory.Drive) error
	// List returns the volumes on the drive by their start.
	List(ctx context.Context, d inventory.Drive) ([]Volume, error)
	// Create makes sure that the slice exists with exactly its size, and returns it
	// with a device node that is there. A region that is not blank is zeroed before
	// it becomes a volume; an existing volume's data is never touched.
	Create(ctx context.Context, d inventory.Drive, s Slice) (Volume, error)
	// Grow makes sure that the volume has at least the slice's size, in place and
	// while it is in use, and returns it; a larger one stays as it is. It refuses
	// with ErrNoSpace, and changes nothing, where the region behind the volume is
	// too small, or where what stays free could no longer hold the slices that kept
	// names, in whatever order they are made. kept is asked when the drive is locked;
	// of its slices those that exist already do not count.
	Grow(ctx context.Context, d inventory.Drive, s Slice, kept func(context.Context) ([]Slice, error)) (Volume, error)
	// Survey says what the drive's table holds, without waiting for a change that
	// is under way. A drive of which it is known that it is blank is surveyed as Init
	// would leave it.
	Survey(ctx context.Context, d inventory.Drive, blank bool) (Survey, error)
	// Changes counts the changes of a drive by this process: one that is equal to an
	// earlier one says that a Survey made since would not be another one.
	Changes(serial string) uint64
	// Delete makes sure that no volume with the UUID exists, on the drive and in
	// the kernel, and that its region reads zero. A volume that is open, mounted or
	// held is refused with ErrBusy and keeps its data.
	Delete(ctx context.Context, d inventory.Drive, uuid string) error
}

// Errors that callers branch on, with errors.Is.
var (
	// ErrNoSpace: no gap is large enough; the error is a *NoSpaceError.
	ErrNoSpace = errors.New("no space on the drive")
	// ErrBusy: something uses the drive or the volume.
	ErrBusy = errors.New("in use")
	// ErrForeign: the drive carries what DISTORT did not write.
	ErrForeign = errors.New("drive is not DISTORT's")
	// ErrDamaged: the drive's table and the kernel, or its copies, disagree in a way
	// that only a person can settle.
	ErrDamaged = errors.New("drive needs repair")
	// ErrNotInitialised: the drive is blank; Init has to come first.
	ErrNotInitialised = errors.New("drive is not initialised")
	// ErrConflict: a volume with the UUID exists and is not what was asked for.
	ErrConflict = errors.New("volume exists with other properties")
	// ErrInvalid: the request itself can never work.
	ErrInvalid = errors.New("invalid request")
)

// NoSpaceError says what was asked for and what there is, all in bytes.
type NoSpaceError struct {
	Serial  string
	Wanted  int64
	Largest int64 // largest gap after alignment
	Free    int64 // sum of all gaps after alignment
	Reason  string
}

func (e *NoSpaceError) Error() string {
	s := fmt.Sprintf("%v %q: wanted %d bytes, largest gap %d bytes, free %d bytes", ErrNoSpace, e.Serial, e.Wanted, e.Largest, e.Free)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	return s
}

// Is makes errors.Is(err, ErrNoSpace) true.
func (e *NoSpaceError) Is(target error) bool { return target == ErrNoSpace }
