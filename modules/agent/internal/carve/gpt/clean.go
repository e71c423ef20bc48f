package gpt

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
)

// probeBytes is how much is read at the head, middle and tail of a region to tell
// whether it is blank: the places where filesystems, RAID and ZFS keep their
// labels, and what the node plugin reads before it formats (design.md §4).
const probeBytes = capacity.Unit

// clean makes sure that a free region is blank before it becomes a volume. One
// whose head, middle and tail read zero was zeroed when its last volume was
// deleted, or was never used; anything else is zeroed as a whole.
func (m *Manager) clean(ctx context.Context, d inventory.Drive, e entry) error {
	blank, err := m.isBlank(ctx, d, e)
	if err != nil || blank {
		return err
	}
	return m.erase(ctx, d, e)
}

// erase zeroes the whole region of a partition, which nobody can have open: the
// kernel does not know it.
func (m *Manager) erase(ctx context.Context, d inventory.Drive, e entry) error {
	if err := m.blocks.Zero(ctx, d.Path, e.Start, e.Size); err != nil {
		return fmt.Errorf("drive %q: zero the region of partition %s: %w", d.Serial, e.UUID, err)
	}
	blank, err := m.isBlank(ctx, d, e)
	if err != nil {
		return err
	}
	if !blank {
		return fmt.Errorf("drive %q: %w: %d bytes at %d were zeroed and do not read zero", d.Serial, carve.ErrDamaged, e.Size, e.Start)
	}
	return nil
}

func (m *Manager) isBlank(ctx context.Context, d inventory.Drive, e entry) (bool, error) {
	n := min(probeBytes, e.Size)
	for _, at := range []int64{e.Start, e.Start + alignDown((e.Size-n)/2), e.end() - n} {
		zero, err := m.blocks.IsZero(ctx, d.Path, at, n)
		if err != nil || !zero {
			if err != nil {
				err = fmt.Errorf("drive %q: %w", d.Serial, err)
			}
			return false, err
		}
	}
	return true, nil
}
