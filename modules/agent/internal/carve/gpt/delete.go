package gpt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// errMismatch: nothing failed, and still the state is not the wanted one.
var errMismatch = errors.New("state is not as expected")

func orMismatch(err error) error {
	if err == nil {
		return errMismatch
	}
	return err
}

// Delete implements carve.VolumeManager.
func (m *Manager) Delete(ctx context.Context, d inventory.Drive, uuid string) error {
	if err := checkDrive(d); err != nil {
		return err
	}
	if !uuidPattern.MatchString(uuid) {
		return fmt.Errorf("drive %q: %w: partition UUID %q: must be a lower-case UUID", d.Serial, carve.ErrInvalid, uuid)
	}
	return m.change(ctx, d, func(ctx context.Context) error { return m.delete(ctx, d, uuid) })
}

// delete takes the partition from the kernel first: that is refused while anyone
// has it open, an export through nvmet included, which no other check sees. Then
// the region is zeroed, and only then the entry goes: as long as it is there, no
// other volume can get the region, and a killed run is finished by the next.
//
// A drive that is slow to zero may take hours, longer than any call: the entry is
// shrunk by what was zeroed at its end, so the table itself says what is left.
func (m *Manager) delete(ctx context.Context, d inventory.Drive, uuid string) error {
	t, err := m.readProbed(ctx, d)
	if errors.Is(err, carve.ErrNotInitialised) {
		return nil
	}
	if err != nil {
		return err
	}
	e, ok := t.byUUID(uuid)
	if !ok {
		return nil
	}
	if !e.ours() {
		return fmt.Errorf("drive %q: partition %s: %w: its type is %s, not %s", d.Serial, uuid, carve.ErrForeign, e.Type, TypeGUID)
	}
	if err := m.hide(ctx, d, e); err != nil {
		return err
	}
	// All of it, whatever it reads like: the next volume is another user's.
	for e.Size > m.step {
		tail := entry{UUID: e.UUID, Start: e.end() - m.step, Size: m.step}
		if err := m.erase(ctx, d, tail); err != nil {
			return err
		}
		if t, e, err = m.resize(ctx, d, t, e, e.Size-m.step); err != nil {
			return err
		}
	}
	if err := m.erase(ctx, d, e); err != nil {
		return err
	}
	cmd := command.New("sfdisk", "--no-reread", "--no-tell-kernel", "--quiet", "--delete", "--", d.Path, strconv.Itoa(e.Number))
	if _, err := m.run.Run(ctx, cmd); err != nil {
		return fmt.Errorf("drive %q: delete partition %s: %w", d.Serial, uuid, err)
	}
	after, err := m.read(ctx, d)
	if err != nil {
		return err
	}
	if !slices.Equal(after.entries, t.without(uuid)) {
		return fmt.Errorf("drive %q: %w: after partition %s was deleted the table has %+v", d.Serial, carve.ErrDamaged, uuid, after.entries)
	}
	// udev may have read the table again in between and told the kernel.
	return m.hide(ctx, d, e)
}

// hide makes the kernel forget the partition.
func (m *Manager) hide(ctx context.Context, d inventory.Drive, e entry) error {
	var tried error
	for range settleSteps {
		parts, err := m.kernel.Partitions(d.Name)
		if err != nil {
			return fmt.Errorf("drive %q: %w", d.Serial, err)
		}
		i := slices.IndexFunc(parts, func(p inventory.Partition) bool { return p.Number == e.Number && p.StartBytes == e.Start })
		if i < 0 {
			return m.checkHidden(d, e, parts)
		}
		p := parts[i]
		if err := m.checkTail(ctx, d, e, p); err != nil {
			return err
		}
		// For the message: partx is refused for each of these, and for an export too.
		if uses, err := m.kernel.UsesNow(p.Name); err == nil && len(uses) > 0 {
			return fmt.Errorf("drive %q: partition %s: %w: %s", d.Serial, e.UUID, carve.ErrBusy, uses[0])
		}
		_, tried = m.run.Run(ctx, command.New("partx", "-d", "--nr", strconv.Itoa(e.Number), "--", d.Path))
		if _, exited := command.ExitCode(tried); tried != nil && !exited {
			return fmt.Errorf("drive %q: partition %s: %w", d.Serial, e.UUID, tried)
		}
		if tried == nil {
			continue
		}
		if err := m.wait(ctx, settleStep); err != nil {
			return fmt.Errorf("drive %q: partition %s: %w: %w", d.Serial, e.UUID, carve.ErrBusy, err)
		}
	}
	return fmt.Errorf("drive %q: partition %s: %w: the kernel does not let it go, somebody has it open or exports it: %w",
		d.Serial, e.UUID, carve.ErrBusy, orMismatch(tried))
}

// checkTail makes sure that a partition which the kernel has larger than the
// table is one whose deletion was cut off: the rest was zeroed then. Otherwise
// somebody else has changed the table, and there is data in what it lost.
func (m *Manager) checkTail(ctx context.Context, d inventory.Drive, e entry, p inventory.Partition) error {
	if p.SizeBytes <= e.Size {
		return nil // equal, or its growth was cut off
	}
	blank, err := m.isBlank(ctx, d, entry{UUID: e.UUID, Start: e.end(), Size: p.SizeBytes - e.Size})
	if err != nil {
		return err
	}
	if !blank {
		return fmt.Errorf("drive %q: partition %s: %w: the kernel has %s with %d bytes, the table with %d bytes, and the rest is not blank",
			d.Serial, e.UUID, carve.ErrDamaged, p.Name, p.SizeBytes, e.Size)
	}
	return nil
}

// checkHidden makes sure that no partition of the kernel lies in the region that
// is about to be zeroed.
func (m *Manager) checkHidden(d inventory.Drive, e entry, parts []inventory.Partition) error {
	for _, p := range parts {
		if p.StartBytes < e.end() && e.Start < p.StartBytes+p.SizeBytes {
			return fmt.Errorf("drive %q: partition %s: %w: the kernel has %s at %d with %d bytes, which overlaps it",
				d.Serial, e.UUID, carve.ErrDamaged, p.Name, p.StartBytes, p.SizeBytes)
		}
	}
	return nil
}
