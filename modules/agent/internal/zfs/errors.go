package zfs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/distort-io/distort/modules/agent/internal/command"
)

// Errors that callers branch on, with errors.Is. ZFS's own exit codes do not tell
// them apart (set fails with 255, most else with 1), so these go by what it says.
var (
	// ErrNoPool: no pool of that identity is imported.
	ErrNoPool = errors.New("pool is not imported")
	// ErrSuspended: the pool's I/O is suspended; nothing can be read or changed.
	ErrSuspended = errors.New("pool is suspended")
	// ErrExporting: somebody exports the pool and waits for its users.
	ErrExporting = errors.New("pool is being exported")
	// ErrReadOnly: the pool was imported read-only.
	ErrReadOnly = errors.New("pool is read-only")
	// ErrUnhealthy: the pool is imported and does not work.
	ErrUnhealthy = errors.New("pool does not work")
	// ErrNotFound: there is no such dataset.
	ErrNotFound = errors.New("dataset does not exist")
	// ErrNoParent: the dataset that it would belong to does not exist.
	ErrNoParent = errors.New("parent dataset does not exist")
	// ErrExists: the name is taken.
	ErrExists = errors.New("dataset exists")
	// ErrNoSpace: the pool, or a quota, has no room.
	ErrNoSpace = errors.New("no space in the pool")
	// ErrBusy: something has the dataset open.
	ErrBusy = errors.New("dataset is in use")
	// ErrDependants: snapshots, clones or children depend on the dataset.
	ErrDependants = errors.New("other datasets depend on it")
	// ErrHeld: a hold keeps the snapshot.
	ErrHeld = errors.New("snapshot is held")
	// ErrKeyMissing: the dataset is encrypted and its key is not loaded.
	ErrKeyMissing = errors.New("encryption key is not loaded")
	// ErrRefused: ZFS can never do what was asked.
	ErrRefused = errors.New("refused by ZFS")
	// ErrForeign: a dataset of that name exists and is not the volume's.
	ErrForeign = errors.New("dataset is not this volume's")
	// ErrNoDevice: the kernel does not show the zvol as a device.
	ErrNoDevice = errors.New("zvol has no device")
	// ErrMismatch: the pools that are imported are not the declared ones.
	ErrMismatch = errors.New("imported pools are not the declared ones")
)

// otherGUID is an ErrForeign: what has the name is not what was recorded.
func otherGUID(name, guid, recorded string) error {
	return fmt.Errorf("%w: %s has GUID %s, and %s is recorded", ErrForeign, name, guid, recorded)
}

// said are the texts of ZFS 2.3, with what each means. The first that is found
// counts, so what is more special comes first.
var said = []struct {
	text string
	kind error
}{
	{"pool I/O is currently suspended", ErrSuspended},
	{"pool export in progress", ErrExporting},
	{"pool is read-only", ErrReadOnly},
	{"no such pool", ErrNoPool},
	{"has dependent clones", ErrDependants},
	{"has children", ErrDependants},
	{"it's being held", ErrHeld},
	{"tag already exists", ErrExists},
	{"parent does not exist", ErrNoParent},
	{"dataset does not exist", ErrNotFound},
	{"could not find any snapshots to destroy", ErrNotFound},
	{"no such tag on this dataset", ErrNotFound},
	{"dataset already exists", ErrExists},
	{"conflicting snapshot", ErrExists},
	{"not a cloned filesystem", ErrRefused},
	{"pool already exists", ErrExists},
	{"a pool with that name already exists", ErrExists},
	{"must specify -F to overwrite it", ErrExists},
	{"out of space", ErrNoSpace},
	{"size is greater than available space", ErrNoSpace},
	{"size is less than current used or reserved space", ErrNoSpace},
	{"is busy", ErrBusy},
	{"filesystem already mounted", ErrBusy},
	{"encryption key not loaded", ErrKeyMissing},
	{"Key must be loaded", ErrKeyMissing},
	{"permission denied", ErrKeyMissing},
	{"I/O error", ErrUnhealthy},
	{"bad volume size", ErrRefused},
	{"bad property list", ErrRefused},
	{"volume size cannot be zero", ErrRefused},
	{"'volsize' cannot be zero", ErrRefused},
	{"'volsize' must be a multiple", ErrRefused},
	{"must be power of 2", ErrRefused},
	{"must be one of", ErrRefused},
	{"must be upgraded to set this", ErrRefused}, // zstd on a pool without that feature
	{"invalid property", ErrRefused},
	{"does not apply", ErrRefused},
	{"property value too long", ErrRefused},
	{"property name", ErrRefused},
	{"name must begin with a letter", ErrRefused},
	{"in name", ErrRefused},
	{"is not expected here", ErrRefused},
	{"name is too long", ErrRefused},
	{"parent is not a filesystem", ErrRefused},
	{"usage:", ErrRefused},
}

// Classify gives an error of a program of ZFS its meaning. One that says nothing
// known, or that did not come from a program which ran to its end, stays as it is.
func Classify(err error) error {
	var exit *command.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	for _, s := range said {
		if strings.Contains(exit.Stderr, s.text) {
			return fmt.Errorf("%w: %w", s.kind, err)
		}
	}
	return err
}
