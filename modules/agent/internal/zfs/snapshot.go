package zfs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// SnapshotSpec is a snapshot that should exist.
type SnapshotSpec struct {
	// ID names it, after the @.
	ID string
	// UID of the object that it belongs to.
	UID string
	// GUID is its recorded GUID; "" when none was recorded.
	GUID string
}

// Snapshot is a snapshot that exists.
type Snapshot struct {
	// Name is its full name. It changes when another zvol takes it over.
	Name string
	// GUID is what ZFS knows it by, for its whole life.
	GUID string
	// UID of the object that it says it belongs to; "" when it does not say so.
	UID string
	// SizeBytes is that of the zvol when the snapshot was taken.
	SizeBytes int64
	CreatedAt time.Time
	// Deferred is true when it goes as soon as nothing was cloned from it any more.
	Deferred bool
	// Clones are the names of what was cloned from it.
	Clones []string
}

// snapshotProperties are what is read of a snapshot.
const snapshotProperties = "guid,volsize,creation,defer_destroy,clones," + UIDProperty

// DependantsError is what keeps a zvol: snapshots that no other zvol of DISTORT can
// take over. It is an ErrDependants.
type DependantsError struct {
	Dataset   string
	Snapshots []Snapshot
}

func (e *DependantsError) Error() string {
	var names []string
	for _, s := range e.Snapshots {
		names = append(names, s.Name)
	}
	return fmt.Sprintf("%s has snapshots: %s", e.Dataset, strings.Join(names, ", "))
}

// Is makes it an ErrDependants.
func (e *DependantsError) Is(target error) bool { return target == ErrDependants }

// Snapshot makes sure that the snapshot of the zvol exists, and returns it. guid is
// the recorded GUID of the zvol. A snapshot that exists already stays as it is. Errors:
// ErrNotFound and ErrForeign of the zvol, ErrForeign: the snapshot's name is taken by
// another one. ErrNoSpace.
func (m *Manager) Snapshot(ctx context.Context, p Pool, of Spec, guid string, s SnapshotSpec) (Snapshot, error) {
	got, err := onPool(ctx, m, p, func(ctx context.Context) (Snapshot, error) {
		got, err := m.findSnapshot(ctx, p, s)
		if !errors.Is(err, ErrNotFound) {
			return got, err
		}
		v, err := m.find(ctx, p, of.ID, of.UID)
		if err == nil && v.GUID != guid {
			err = otherGUID(v.Dataset, v.GUID, guid)
		}
		if err != nil {
			return Snapshot{}, err
		}
		if _, err := m.run(ctx, "zfs", "snapshot", "-o", UIDProperty+"="+s.UID, "--", v.Dataset+"@"+s.ID); err != nil {
			return Snapshot{}, err
		}
		return m.findSnapshot(ctx, p, s)
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("take snapshot %s of zvol %s on pool %s: %w", s.ID, of.ID, p, err)
	}
	return got, nil
}

// FindSnapshot returns the snapshot of the object with this UID, whichever zvol has
// it now: ErrNotFound, ErrForeign.
func (m *Manager) FindSnapshot(ctx context.Context, p Pool, s SnapshotSpec) (Snapshot, error) {
	return onPool(ctx, m, p, func(ctx context.Context) (Snapshot, error) { return m.findSnapshot(ctx, p, s) })
}

// DestroySnapshot makes sure that the snapshot does not exist, or that it goes with
// the last zvol that was cloned from it, and reads that back. A snapshot of that name
// with another owner is not this one, and stays. ErrForeign: GUID and owner
// contradict each other, which a person has to settle. ErrHeld: somebody holds it.
func (m *Manager) DestroySnapshot(ctx context.Context, p Pool, s SnapshotSpec) error {
	_, err := onPool(ctx, m, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, m.destroySnapshot(ctx, p, s) })
	if err != nil {
		return fmt.Errorf("destroy snapshot %s on pool %s: %w", s.ID, p, err)
	}
	return nil
}

func (m *Manager) destroySnapshot(ctx context.Context, p Pool, s SnapshotSpec) error {
	switch got, err := m.findSnapshot(ctx, p, s); {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrForeign) && got.UID != s.UID && got.GUID != s.GUID:
		return nil
	case err != nil:
		return err
	case got.Deferred && len(got.Clones) > 0:
		return nil
	default:
		if _, err := m.run(ctx, "zfs", "destroy", "-d", "--", got.Name); err != nil {
			return err
		}
	}
	switch got, err := m.findSnapshot(ctx, p, s); {
	case errors.Is(err, ErrNotFound), err == nil && got.Deferred && len(got.Clones) > 0:
		return nil
	case err != nil:
		return fmt.Errorf("read back: %w", err)
	default:
		return fmt.Errorf("%w: %s is still there after it was destroyed", ErrHeld, got.Name)
	}
}

// findSnapshot reads all snapshots of the pool's zvols at once: a promotion moves
// them from one zvol to another. One that says it is the object's comes before others
// of its name.
func (m *Manager) findSnapshot(ctx context.Context, p Pool, s SnapshotSpec) (Snapshot, error) {
	all, err := m.snapshots(ctx, p, "-r", "-t", "snapshot", snapshotProperties, "--", p.Name+blocks)
	if err != nil {
		return Snapshot{}, err
	}
	err = fmt.Errorf("%w: snapshot %s", ErrNotFound, s.ID)
	var foreign Snapshot
	for _, got := range all {
		switch _, id, _ := strings.Cut(got.Name, "@"); {
		case id != s.ID:
		case got.UID != s.UID:
			foreign, err = got, fmt.Errorf("%w: property %s of %s is %q, not %q", ErrForeign, UIDProperty, got.Name, got.UID, s.UID)
		case s.GUID != "" && got.GUID != s.GUID:
			return got, otherGUID(got.Name, got.GUID, s.GUID)
		default:
			return got, nil
		}
	}
	return foreign, err
}

// snapshots reads those of zvols that `zfs get` lists with these arguments, for each
// zvol in the order in which they were taken.
func (m *Manager) snapshots(ctx context.Context, p Pool, args ...string) ([]Snapshot, error) {
	found, err := m.get(ctx, args...)
	if errors.Is(err, ErrNotFound) {
		return nil, m.present(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	var out []Snapshot
	for _, d := range found {
		if d.values["volsize"] == "-" {
			continue // of a dataset that holds zvols: whoever takes snapshots of a whole pool has them
		}
		s := Snapshot{Name: d.name, GUID: d.values["guid"], UID: d.values[UIDProperty], Deferred: d.values["defer_destroy"] == "on"}
		if clones := d.values["clones"]; clones != "" && clones != "-" {
			s.Clones = strings.Split(clones, ",")
		}
		created, err := d.number("creation")
		if err != nil {
			return nil, err
		}
		s.CreatedAt = time.Unix(created, 0)
		if s.SizeBytes, err = d.number("volsize"); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
