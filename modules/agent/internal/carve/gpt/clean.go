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

// clean makes sure that a free region is blank before it becomes a volume or a
// part of one. One whose head, middle and tail read zero was zeroed when its last
// volume was deleted, or was never used; anything else is zeroed as a whole.
func (m *Manager) clean(ctx context.Context, d inventory.Drive, e entry) error {
	blank, err := m.isBlank(ctx, d, e)
	if err != nil || blank {
		return err
	}
	return m.erase(ctx, d, e)
}

// erase zeroes a whole region, which nobody can have open: the kernel does not
// know it. The places that isBlank looks at come last: a region of which only a
// part was zeroed before a kill does not look blank to the next run.
func (m *Manager) erase(ctx context.Context, d inventory.Drive, e entry) error {
	probes := probesOf(e)
	var rest []span
	for i := 1; i < len(probes); i++ {
		if between := (span{probes[i-1].end, probes[i].start}); between.size() > 0 {
			rest = append(rest, between)
		}
	}
	for _, s := range append(rest, probes...) {
		if err := m.blocks.Zero(ctx, d.Path, s.start, s.size()); err != nil {
			return fmt.Errorf("drive %q: zero the region of partition %s: %w", d.Serial, e.UUID, err)
		}
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

// probesOf are head, middle and tail of a region, without overlaps.
func probesOf(e entry) []span {
	n := min(probeBytes, e.Size)
	var out []span
	seen := e.Start
	for _, at := range []int64{e.Start, e.Start + alignDown((e.Size-n)/2), e.end() - n} {
		if s := (span{max(at, seen), at + n}); s.size() > 0 {
			out = append(out, s)
			seen = s.end
		}
	}
	return out
}

func (m *Manager) isBlank(ctx context.Context, d inventory.Drive, e entry) (bool, error) {
	for _, p := range probesOf(e) {
		zero, err := m.blocks.IsZero(ctx, d.Path, p.start, p.size())
		if err != nil || !zero {
			if err != nil {
				err = fmt.Errorf("drive %q: %w", d.Serial, err)
			}
			return false, err
		}
	}
	return true, nil
}
