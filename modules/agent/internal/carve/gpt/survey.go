package gpt

import (
	"context"
	"fmt"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// Survey implements carve.VolumeManager.
func (m *Manager) Survey(ctx context.Context, d inventory.Drive, blank bool) (carve.Survey, error) {
	if err := checkDrive(d); err != nil {
		return carve.Survey{}, err
	}
	if blank {
		return carve.Survey{LargestFree: largest(gaps(empty(d), nil))}, nil
	}
	parts, err := m.kernel.Partitions(d.Name)
	if err != nil {
		return carve.Survey{}, fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	t, err := m.read(ctx, d)
	if err != nil {
		return carve.Survey{}, err
	}
	s := carve.Survey{LargestFree: largest(gaps(t, parts))}
	for _, e := range t.entries {
		if e.ours() {
			s.Volumes = append(s.Volumes, e.volume())
			continue
		}
		s.Others = append(s.Others, fmt.Sprintf("number %d, UUID %s, type %s, name %q", e.Number, e.UUID, e.Type, e.Name))
	}
	if len(t.entries) >= maxEntries {
		s.LargestFree = 0
	}
	return s, nil
}

// empty is the table that sfdisk makes on a blank drive: 128 entries of 128 bytes
// and a header at each end, and the first MiB left out.
func empty(d inventory.Drive) table {
	return table{first: 1 << 20, last: d.SizeBytes - maxEntries*128 - d.BlockBytes}
}

// Changes implements carve.VolumeManager.
func (m *Manager) Changes(serial string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes[serial]
}

// change runs one change of a drive while nothing else changes it, and counts it
// whatever came of it.
func (m *Manager) change(ctx context.Context, d inventory.Drive, run func(context.Context) error) error {
	return m.locks.Do(ctx, d.Serial, func(ctx context.Context) error {
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.changes[d.Serial]++
		}()
		return run(ctx)
	})
}
