package filesystem

import (
	"context"
	"fmt"
	"slices"
)

// Format is one run of mkfs.
type Format struct {
	Device string
	Type   Type
	// UUID of the new filesystem, canonical lower case.
	UUID string
	// Zeroed says that unwritten blocks of the device read as zeros, so that
	// tables need not be written now (design.md §9: a fact of the backend).
	Zeroed bool
	// Force overwrites what mkfs finds. Only for the remains of an earlier run
	// of ours that did not finish.
	Force bool
	// Options are further arguments: pairs of flag and value that package
	// mkfsoptions accepted for the type.
	Options []string
}

// Format makes a filesystem. It never discards: the device is fresh.
func (h *Host) Format(ctx context.Context, f Format) error {
	name, args, err := f.command()
	if err != nil {
		return err
	}
	return h.calls.Do(ctx, "format "+f.Device, func() error {
		if _, err := h.runner.Run(ctx, name, args...); err != nil {
			return fmt.Errorf("format %s: %w", f.Device, err)
		}
		return nil
	})
}

func (f Format) command() (string, []string, error) {
	if len(f.Options)%2 != 0 {
		return "", nil, fmt.Errorf("%w: mkfs options %q are not pairs", ErrInvalid, f.Options)
	}
	if !uuidPattern.MatchString(f.UUID) {
		return "", nil, fmt.Errorf("%w: filesystem UUID %q is not a canonical UUID", ErrInvalid, f.UUID)
	}
	switch f.Type {
	case Ext4:
		lazy := "0"
		if f.Zeroed {
			lazy = "1"
		}
		// mkfs.ext4 heeds the last -E only.
		extended := "nodiscard,lazy_itable_init=" + lazy + ",lazy_journal_init=" + lazy
		// -F: no question for a whole disk. -m 0: nobody but the pod writes here.
		args := []string{"-F", "-q", "-m", "0", "-U", f.UUID}
		for flag := range slices.Chunk(f.Options, 2) {
			if flag[0] == "-E" {
				extended += "," + flag[1]
			} else {
				args = append(args, flag...)
			}
		}
		return "mkfs.ext4", append(args, "-E", extended, "--", f.Device), nil
	case XFS:
		args := []string{"-q", "-K", "-m", "uuid=" + f.UUID}
		if f.Force {
			args = append(args, "-f")
		}
		args = append(args, f.Options...)
		return "mkfs.xfs", append(args, "--", f.Device), nil
	}
	return "", nil, fmt.Errorf("%w: filesystem %q, want %s or %s", ErrInvalid, f.Type, Ext4, XFS)
}
