package gpt

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// Grow implements carve.VolumeManager.
func (m *Manager) Grow(ctx context.Context, d inventory.Drive, s carve.Slice, kept func(context.Context) ([]carve.Slice, error)) (carve.Volume, error) {
	if err := checkDrive(d); err != nil {
		return carve.Volume{}, err
	}
	if err := checkSlice(s); err != nil {
		return carve.Volume{}, fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	var v carve.Volume
	err := m.change(ctx, d, func(ctx context.Context) (err error) {
		v, err = m.grow(ctx, d, s, kept)
		return err
	})
	if err != nil {
		return carve.Volume{}, err
	}
	return v, nil
}

// grow cleans the region behind the partition, then writes its new size to the
// table, then tells the kernel, which takes it for a partition that is open too.
// A run that was killed in between is finished by the next call, and by Create.
func (m *Manager) grow(ctx context.Context, d inventory.Drive, s carve.Slice, kept func(context.Context) ([]carve.Slice, error)) (carve.Volume, error) {
	t, err := m.readProbed(ctx, d)
	if err != nil {
		return carve.Volume{}, err
	}
	e, ok := t.byUUID(s.UUID)
	if !ok || !e.ours() {
		return carve.Volume{}, fmt.Errorf("drive %q: %w: grow partition %s: the table has no volume of that UUID", d.Serial, carve.ErrInvalid, s.UUID)
	}
	if e.Size < s.SizeBytes {
		parts, err := m.kernel.Partitions(d.Name)
		if err != nil {
			return carve.Volume{}, fmt.Errorf("drive %q: %w", d.Serial, err)
		}
		reserved, err := kept(ctx)
		if err != nil {
			return carve.Volume{}, fmt.Errorf("drive %q: %w", d.Serial, err)
		}
		if err := roomBehind(d, t, parts, e, s.SizeBytes, reserved); err != nil {
			return carve.Volume{}, err
		}
		behind := entry{UUID: e.UUID, Start: e.end(), Size: s.SizeBytes - e.Size}
		if err := m.clean(ctx, d, behind); err != nil {
			return carve.Volume{}, err
		}
		if _, e, err = m.resize(ctx, d, t, e, s.SizeBytes); err != nil {
			return carve.Volume{}, err
		}
	}
	return m.reveal(ctx, d, e)
}

// roomBehind tells whether the partition can have that size, and what stays free
// is still enough for the slices that are to be made.
func roomBehind(d inventory.Drive, t table, parts []inventory.Partition, e entry, size int64, reserved []carve.Slice) error {
	free := gaps(t, parts)
	i := slices.IndexFunc(free, func(g span) bool { return g.start == e.end() })
	behind := int64(0)
	if i >= 0 {
		behind = free[i].size()
		free[i].start += min(behind, size-e.Size)
	}
	full := func(why string) error {
		return fmt.Errorf("drive %q: %w to grow partition %s from %d to %d bytes: %d bytes are free behind it%s",
			d.Serial, carve.ErrNoSpace, e.UUID, e.Size, size, behind, why)
	}
	if size-e.Size > behind {
		return full("")
	}
	var wanted []int64
	var sum int64
	for _, s := range reserved {
		if _, made := t.byUUID(s.UUID); !made {
			wanted = append(wanted, s.SizeBytes)
			sum += s.SizeBytes
		}
	}
	if !holdsAll(free, wanted) {
		return full(fmt.Sprintf(", and %d partitions of together %d bytes that were placed on the drive come first", len(wanted), sum))
	}
	return nil
}

// resize writes another size of the entry to the table and reads it back. It
// answers the table as it is then. Who shrinks an entry has made sure that the
// kernel does not know it and that what it loses reads zero.
func (m *Manager) resize(ctx context.Context, d inventory.Drive, t table, e entry, size int64) (table, entry, error) {
	// Only the size is given: sfdisk keeps the rest of the entry.
	script := fmt.Sprintf("size=%d\n", size/d.BlockBytes)
	cmd := command.New("sfdisk", "--no-reread", "--no-tell-kernel", "--wipe", "never", "--wipe-partitions", "never",
		"--quiet", "-N", strconv.Itoa(e.Number), "--", d.Path).WithStdin(script)
	if _, err := m.run.Run(ctx, cmd); err != nil {
		return table{}, entry{}, fmt.Errorf("drive %q: set size of partition %s: %w", d.Serial, e.UUID, err)
	}
	after, err := m.read(ctx, d)
	if err != nil {
		return table{}, entry{}, err
	}
	want := e
	want.Size = size
	got, ok := after.byUUID(e.UUID)
	if !ok || got != want || !slices.Equal(after.without(e.UUID), t.without(e.UUID)) {
		return table{}, entry{}, fmt.Errorf("drive %q: %w: after partition %+v was resized to %d bytes the table has %+v", d.Serial, carve.ErrDamaged, e, size, after.entries)
	}
	return after, got, nil
}
