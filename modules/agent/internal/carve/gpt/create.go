package gpt

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// Create implements carve.VolumeManager.
func (m *Manager) Create(ctx context.Context, d inventory.Drive, s carve.Slice) (carve.Volume, error) {
	if err := checkDrive(d); err != nil {
		return carve.Volume{}, err
	}
	if err := checkSlice(s); err != nil {
		return carve.Volume{}, fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	var v carve.Volume
	err := m.change(ctx, d, func(ctx context.Context) (err error) {
		v, err = m.create(ctx, d, s)
		return err
	})
	if err != nil {
		return carve.Volume{}, err
	}
	return v, nil
}

func (m *Manager) create(ctx context.Context, d inventory.Drive, s carve.Slice) (carve.Volume, error) {
	t, err := m.readProbed(ctx, d)
	if err != nil {
		return carve.Volume{}, err
	}
	e, ok := t.byUUID(s.UUID)
	if !ok {
		if e, err = m.add(ctx, d, t, s); err != nil {
			return carve.Volume{}, err
		}
	}
	if !e.ours() || e.Size != s.SizeBytes {
		return carve.Volume{}, fmt.Errorf("drive %q: partition %s: %w: it has %d bytes and type %s, wanted %d bytes and type %s",
			d.Serial, s.UUID, carve.ErrConflict, e.Size, e.Type, s.SizeBytes, TypeGUID)
	}
	return m.reveal(ctx, d, e)
}

// add zeroes a free region, makes an entry for it and reads it back. The region
// is clean before the entry exists, so an entry that a killed run left behind
// never shows old data.
func (m *Manager) add(ctx context.Context, d inventory.Drive, t table, s carve.Slice) (entry, error) {
	parts, err := m.kernel.Partitions(d.Name)
	if err != nil {
		return entry{}, fmt.Errorf("drive %q: %w", d.Serial, err)
	}
	start, number, err := place(d, t, parts, s.SizeBytes)
	if err != nil {
		return entry{}, err
	}
	want := entry{Number: number, UUID: s.UUID, Type: TypeGUID, Name: s.Name, Start: start, Size: s.SizeBytes}
	if err := m.clean(ctx, d, want); err != nil {
		return entry{}, err
	}
	// The number comes first: without it sfdisk takes the lowest that the table has
	// free, which the kernel may still use for a deleted partition.
	script := fmt.Sprintf("%d : start=%d, size=%d, type=%s, uuid=%s, name=%q\n",
		number, start/d.BlockBytes, s.SizeBytes/d.BlockBytes, TypeGUID, s.UUID, s.Name)
	cmd := command.New("sfdisk", "--no-reread", "--no-tell-kernel", "--wipe", "never", "--wipe-partitions", "never",
		"--quiet", "--append", "--", d.Path).WithStdin(script)
	if _, err := m.run.Run(ctx, cmd); err != nil {
		return entry{}, fmt.Errorf("drive %q: add partition %s: %w", d.Serial, s.UUID, err)
	}
	after, err := m.read(ctx, d)
	if err != nil {
		return entry{}, err
	}
	got, ok := after.byUUID(s.UUID)
	if !ok || got != want || !slices.Equal(after.without(s.UUID), t.entries) {
		return entry{}, fmt.Errorf("drive %q: %w: after partition %+v was added the table has %+v", d.Serial, carve.ErrDamaged, want, after.entries)
	}
	return got, nil
}

// How long Create and Delete wait for the kernel and for other programs' short
// looks at a partition (udev probes what was just closed).
const (
	settleStep  = 50 * time.Millisecond
	settleSteps = 100
)

// reveal makes the kernel know the partition with the size that the table has, if
// it does not yet, and waits for its node. A kill between the table's change and
// here is made good by the next Create or Grow.
func (m *Manager) reveal(ctx context.Context, d inventory.Drive, e entry) (carve.Volume, error) {
	var tried error
	for range settleSteps {
		parts, err := m.kernel.Partitions(d.Name)
		if err != nil {
			return carve.Volume{}, fmt.Errorf("drive %q: %w", d.Serial, err)
		}
		if p, ok := find(parts, e); ok {
			v := e.volume()
			v.DevicePath, v.Dev = p.Path, p.Dev
			// The node must be this partition's: a name may be an older one's.
			n, err := m.blocks.Number(p.Path)
			if err == nil && n == p.Dev {
				return v, nil
			}
			tried = fmt.Errorf("node %s is %s, not %s: %w", p.Path, n, p.Dev, orMismatch(err))
		} else {
			how := "-a"
			if i := slices.IndexFunc(parts, func(p inventory.Partition) bool { return p.Number == e.Number }); i >= 0 {
				if parts[i].StartBytes != e.Start || parts[i].SizeBytes > e.Size {
					return carve.Volume{}, fmt.Errorf("drive %q: partition %s: %w: the kernel has number %d at %d with %d bytes, the table at %d with %d bytes",
						d.Serial, e.UUID, carve.ErrDamaged, e.Number, parts[i].StartBytes, parts[i].SizeBytes, e.Start, e.Size)
				}
				how = "-u" // it has grown; one that is open is resized in place
			}
			// It answers 1 when somebody else was faster: what the kernel shows decides.
			_, tried = m.run.Run(ctx, command.New("partx", how, "--nr", strconv.Itoa(e.Number), "--", d.Path))
			if _, exited := command.ExitCode(tried); tried != nil && !exited {
				return carve.Volume{}, fmt.Errorf("drive %q: partition %s: %w", d.Serial, e.UUID, tried)
			}
			if parts, err = m.kernel.Partitions(d.Name); err == nil {
				if _, ok := find(parts, e); ok {
					continue
				}
			}
		}
		if err := m.wait(ctx, settleStep); err != nil {
			return carve.Volume{}, fmt.Errorf("drive %q: wait for the node of partition %s: %w", d.Serial, e.UUID, err)
		}
	}
	return carve.Volume{}, fmt.Errorf("drive %q: the kernel does not show partition %s (number %d): %w", d.Serial, e.UUID, e.Number, orMismatch(tried))
}
