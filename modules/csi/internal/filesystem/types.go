package filesystem

import (
	"errors"
	"fmt"
	"regexp"
)

// Type is a filesystem that DISTORT makes.
type Type string

// Filesystems.
const (
	Ext4 Type = "ext4"
	XFS  Type = "xfs"
)

// What callers tell apart.
var (
	// ErrInvalid: an argument breaks a rule; nothing was done.
	ErrInvalid = errors.New("invalid filesystem argument")
	// ErrOccupied: something else is mounted at the path, or is the path.
	ErrOccupied = errors.New("path is occupied")
	// ErrNotMounted: nothing is mounted where something must be.
	ErrNotMounted = errors.New("not mounted")
	// ErrDamaged: a check found errors in a filesystem.
	ErrDamaged = errors.New("filesystem is damaged")
	// ErrInUse: somebody has the device, so that it cannot be checked.
	ErrInUse = errors.New("device is in use")
	// ErrNotGrown: a filesystem is smaller than its device after it was grown.
	ErrNotGrown = errors.New("filesystem did not grow")
)

// ParseType reads a filesystem name.
func ParseType(s string) (Type, error) {
	switch t := Type(s); t {
	case Ext4, XFS:
		return t, nil
	}
	return "", fmt.Errorf("%w: filesystem %q, want %s or %s", ErrInvalid, s, Ext4, XFS)
}

// Content is what a device was seen to hold.
type Content struct {
	// Blank is true only when nothing was recognised and the reads were zero.
	Blank bool
	// Recognised: blkid knows a signature on the device, whichever.
	Recognised bool
	// Type and UUID are those of a filesystem, as blkid names them; empty when
	// the device holds something else.
	Type, UUID string
	// Description names what was found, for messages.
	Description string
}

// Is tells whether the device holds exactly this filesystem.
func (c Content) Is(t Type, uuid string) bool {
	return !c.Blank && c.Type == string(t) && c.UUID == uuid
}

var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
