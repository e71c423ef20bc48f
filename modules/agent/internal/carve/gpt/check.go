package gpt

import (
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/identity"
)

// uuidPattern is the one form of a partition's GUID that is accepted: it becomes
// part of a script for sfdisk.
var uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// checkDrive refuses a value that a scan would not have made.
func checkDrive(d inventory.Drive) error {
	switch {
	case d.Serial == "":
		return fmt.Errorf("%w: drive %s has no serial number", carve.ErrInvalid, d.Path)
	case d.Name == "" || !filepath.IsAbs(d.Path) || filepath.Base(d.Path) != d.Name:
		return fmt.Errorf("%w: drive %q: device %q must be an absolute path that ends in its kernel name %q", carve.ErrInvalid, d.Serial, d.Path, d.Name)
	case d.BlockBytes != 512 && d.BlockBytes != 4096:
		return fmt.Errorf("%w: drive %q: logical blocks of %d bytes; must be 512 or 4096", carve.ErrInvalid, d.Serial, d.BlockBytes)
	case d.SizeBytes <= 0 || d.SizeBytes%d.BlockBytes != 0:
		return fmt.Errorf("%w: drive %q: size %d bytes is not a positive multiple of %d", carve.ErrInvalid, d.Serial, d.SizeBytes, d.BlockBytes)
	case d.ReadOnly:
		return fmt.Errorf("%w: drive %q is read-only", carve.ErrInvalid, d.Serial)
	}
	return nil
}

func checkSlice(s carve.Slice) error {
	switch {
	case !uuidPattern.MatchString(s.UUID):
		return fmt.Errorf("%w: partition UUID %q: must be a lower-case UUID", carve.ErrInvalid, s.UUID)
	case !identity.IsExternalID(s.Name):
		return fmt.Errorf("%w: partition name %q: must be an external ID, vol- and 32 hex digits", carve.ErrInvalid, s.Name)
	case s.SizeBytes <= 0 || s.SizeBytes%capacity.Unit != 0:
		return fmt.Errorf("%w: size %d bytes: must be a positive multiple of %d", carve.ErrInvalid, s.SizeBytes, capacity.Unit)
	}
	return nil
}
