package zfs_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/agent/internal/zfs/zfstest"
)

var (
	snap  = zfs.SnapshotSpec{ID: "snap-1", UID: "snap-uid-1"}
	clone = zfs.Spec{ID: "vol-2", UID: "uid-2", SizeBytes: 64 * mib}
)

// take takes a snapshot of the first zvol.
func take(t *testing.T, m *zfs.Manager, p zfs.Pool, s zfs.SnapshotSpec) (zfs.Snapshot, error) {
	t.Helper()
	v, err := m.Find(t.Context(), p, spec.ID, spec.UID)
	if err != nil {
		return zfs.Snapshot{}, err
	}
	return m.Snapshot(t.Context(), p, spec, v.GUID, s)
}

// family is a zvol with a snapshot and a clone of it.
func family(t *testing.T) (*zfstest.Host, *zfs.Manager, zfs.Pool) {
	t.Helper()
	h, m, p := world(t)
	if _, err := m.Create(t.Context(), p, spec); err != nil {
		t.Fatal(err)
	}
	if _, err := take(t, m, p, snap); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Clone(t.Context(), p, snap, clone); err != nil {
		t.Fatal(err)
	}
	return h, m, p
}

func TestSnapshotIsTakenOnceAndReadBack(t *testing.T) {
	h, m, p := world(t)
	if _, err := take(t, m, p, snap); !errors.Is(err, zfs.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := m.Create(t.Context(), p, spec); err != nil {
		t.Fatal(err)
	}
	first, err := take(t, m, p, snap)
	if err != nil || first.Name != "tank/distort/block/vol-1@snap-1" || first.SizeBytes != spec.SizeBytes || first.GUID == "" || first.CreatedAt.IsZero() {
		t.Fatalf("snapshot = %+v, %v", first, err)
	}
	larger := spec
	larger.SizeBytes *= 2
	if _, err := m.Grow(t.Context(), p, larger); err != nil {
		t.Fatal(err)
	}
	again, err := take(t, m, p, snap)
	if err != nil || again.GUID != first.GUID {
		t.Errorf("taken again: %+v, %v", again, err)
	}
	if _, err := take(t, m, p, zfs.SnapshotSpec{ID: snap.ID, UID: "another"}); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("of another owner: %v", err)
	}
	lost := zfs.SnapshotSpec{ID: snap.ID, UID: snap.UID, GUID: "4711"}
	if err := m.DestroySnapshot(t.Context(), p, lost); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("another GUID is recorded: %v", err)
	}
	if _, err := m.Clone(t.Context(), p, lost, clone); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("clone of another GUID than is recorded: %v", err)
	}
	run(t, h, "hold", "keep", first.Name)
	recorded := zfs.SnapshotSpec{ID: snap.ID, UID: snap.UID, GUID: first.GUID}
	for range 2 {
		if err := m.DestroySnapshot(t.Context(), p, recorded); !errors.Is(err, zfs.ErrHeld) {
			t.Errorf("held: %v", err)
		}
	}
	run(t, h, "release", "keep", first.Name)
	for range 2 {
		if err := m.DestroySnapshot(t.Context(), p, recorded); err != nil {
			t.Error(err)
		}
	}
	if _, err := m.FindSnapshot(t.Context(), p, snap); !errors.Is(err, zfs.ErrNotFound) {
		t.Errorf("after it was destroyed: %v", err)
	}
}

func TestCloneHasItsOwnSizeAndSpace(t *testing.T) {
	h, m, p := world(t)
	if _, err := m.Create(t.Context(), p, spec); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Clone(t.Context(), p, snap, clone); !errors.Is(err, zfs.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
	if _, err := take(t, m, p, snap); err != nil {
		t.Fatal(err)
	}
	before, err := m.Sample(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	larger := clone
	larger.SizeBytes = 128 * mib
	v, err := m.Clone(t.Context(), p, snap, larger)
	if err != nil || v.SizeBytes != larger.SizeBytes || v.UID != larger.UID {
		t.Fatalf("clone = %+v, %v", v, err)
	}
	after, err := m.Sample(t.Context(), p)
	if err != nil || before.FreeBytes-after.FreeBytes < larger.SizeBytes {
		t.Errorf("the clone took %d bytes, %v", before.FreeBytes-after.FreeBytes, err)
	}
	if again, err := m.Clone(t.Context(), p, snap, larger); err != nil || again != v {
		t.Errorf("cloned again: %+v, %v", again, err)
	}
	coarse := zfs.Spec{ID: "vol-3", UID: "uid-3", SizeBytes: 64 * mib, BlockSize: 128 << 10}
	if _, err := m.Clone(t.Context(), p, snap, coarse); !errors.Is(err, zfs.ErrRefused) || !strings.Contains(err.Error(), "16384") {
		t.Errorf("with larger blocks: %v", err)
	}
	same := coarse
	same.BlockSize = 16 << 10
	if v, err := m.Clone(t.Context(), p, snap, same); err != nil || v.BlockSize != int64(same.BlockSize) {
		t.Errorf("with the same blocks: %+v, %v", v, err)
	}
	if err := m.Destroy(t.Context(), p, same, ""); err != nil {
		t.Error(err)
	}
	huge := zfs.Spec{ID: "vol-3", UID: "uid-3", SizeBytes: 4 << 30}
	if _, err := m.Clone(t.Context(), p, snap, huge); !errors.Is(err, zfs.ErrNoSpace) {
		t.Errorf("more than there is: %v", err)
	}
	if err := m.Destroy(t.Context(), p, huge, ""); err != nil {
		t.Errorf("what was begun: %v", err)
	}
	if n := len(h.Zvols()); n != 2 {
		t.Errorf("%d zvols", n)
	}
}

// A zvol, its snapshot and a clone of that go in any order (known faults SN4, SN5). Only a zvol whose
// snapshot no clone can take over has to wait for it.
func TestFamiliesGoInAnyOrder(t *testing.T) {
	for _, order := range []string{"zvol snapshot clone", "zvol clone snapshot", "snapshot zvol clone", "snapshot clone zvol", "clone zvol snapshot", "clone snapshot zvol"} {
		t.Run(order, func(t *testing.T) {
			h, m, p := family(t)
			destroy := map[string]func() error{
				"zvol":     func() error { return m.Destroy(t.Context(), p, spec, "") },
				"snapshot": func() error { return m.DestroySnapshot(t.Context(), p, snap) },
				"clone":    func() error { return m.Destroy(t.Context(), p, clone, "") },
			}
			var waiting []string
			for _, which := range strings.Fields(order) {
				var dependants *zfs.DependantsError
				switch err := destroy[which](); {
				case errors.As(err, &dependants):
					if which == "snapshot" || len(dependants.Snapshots) != 1 || dependants.Snapshots[0].UID != snap.UID {
						t.Errorf("%s: %v", which, err)
					}
					waiting = append(waiting, which)
				case err != nil:
					t.Errorf("%s: %v", which, err)
				}
			}
			// With the clone as heir the first zvol waits for nothing; the heir does.
			want := map[string][]string{"zvol clone snapshot": {"clone"}, "clone zvol snapshot": {"zvol"}}[order]
			if !slices.Equal(waiting, want) {
				t.Errorf("waited: %v, want %v", waiting, want)
			}
			for _, which := range waiting {
				if err := destroy[which](); err != nil {
					t.Errorf("%s, once the snapshot was gone: %v", which, err)
				}
			}
			if left := h.Zvols(); len(left) != 0 {
				t.Errorf("left: %+v", left)
			}
			if _, err := m.FindSnapshot(t.Context(), p, snap); !errors.Is(err, zfs.ErrNotFound) {
				t.Errorf("the snapshot: %v", err)
			}
		})
	}
}

// The latest snapshot that was cloned goes to its clone with all that are older.
func TestAnHeirTakesAllOlderSnapshots(t *testing.T) {
	_, m, p := family(t)
	later := zfs.SnapshotSpec{ID: "snap-2", UID: "snap-uid-2"}
	last := zfs.SnapshotSpec{ID: "snap-3", UID: "snap-uid-3"}
	third := zfs.Spec{ID: "vol-3", UID: "uid-3", SizeBytes: 64 * mib}
	if _, err := take(t, m, p, later); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Clone(t.Context(), p, later, third); err != nil {
		t.Fatal(err)
	}
	if _, err := take(t, m, p, last); err != nil {
		t.Fatal(err)
	}
	var dependants *zfs.DependantsError
	if err := m.Destroy(t.Context(), p, spec, ""); !errors.As(err, &dependants) || len(dependants.Snapshots) != 1 || dependants.Snapshots[0].UID != last.UID {
		t.Errorf("with a snapshot that was not cloned: %v", err)
	}
	if err := m.DestroySnapshot(t.Context(), p, last); err != nil {
		t.Error(err)
	}
	if err := m.Destroy(t.Context(), p, spec, ""); err != nil {
		t.Error(err)
	}
	for _, s := range []zfs.SnapshotSpec{snap, later} {
		if got, err := m.FindSnapshot(t.Context(), p, s); err != nil || !strings.HasPrefix(got.Name, p.Dataset(third.ID)+"@") {
			t.Errorf("snapshot %s is now %q, %v", s.ID, got.Name, err)
		}
	}
	if v, err := m.Find(t.Context(), p, clone.ID, clone.UID); err != nil || v.SizeBytes != clone.SizeBytes {
		t.Errorf("the other clone: %+v, %v", v, err)
	}
}

// What others made on the pool is neither taken for DISTORT's nor destroyed, and
// keeps what it depends on.
func TestSnapshotsOfOthersAreLeftAlone(t *testing.T) {
	h, m, p := world(t)
	v, err := m.Create(t.Context(), p, spec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Snapshot(t.Context(), p, spec, "4711", snap); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("of another zvol than the recorded one: %v", err)
	}
	const block = "tank/distort/block"
	run(t, h, "snapshot", block+"@"+snap.ID) // as of a whole pool
	run(t, h, "create", "-V", "64M", block+"/a-copy")
	run(t, h, "snapshot", block+"/a-copy@"+snap.ID) // sent and received
	if err := m.DestroySnapshot(t.Context(), p, snap); err != nil {
		t.Errorf("with another one of its name: %v", err)
	}
	if _, err := m.Clone(t.Context(), p, snap, clone); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("of another one of its name: %v", err)
	}
	run(t, h, "destroy", block+"/a-copy@"+snap.ID)
	got, err := take(t, m, p, snap)
	if err != nil || got.Name != v.Dataset+"@"+snap.ID {
		t.Fatalf("snapshot = %+v, %v", got, err)
	}
	run(t, h, "snapshot", block+"/a-copy@"+snap.ID)
	if again, err := m.FindSnapshot(t.Context(), p, snap); err != nil || again.GUID != got.GUID {
		t.Errorf("beside another one of its name: %+v, %v", again, err)
	}
	run(t, h, "clone", got.Name, block+"/theirs")
	if err := m.DestroySnapshot(t.Context(), p, snap); err != nil {
		t.Error(err)
	}
	var dependants *zfs.DependantsError
	if err := m.Destroy(t.Context(), p, spec, v.GUID); !errors.As(err, &dependants) || len(dependants.Snapshots) != 1 ||
		!slices.Equal(dependants.Snapshots[0].Clones, []string{block + "/theirs"}) {
		t.Errorf("with a clone of somebody else: %v", err)
	}
	run(t, h, "destroy", block+"/theirs")
	run(t, h, "snapshot", v.Dataset+"@daily")
	if err := m.Destroy(t.Context(), p, spec, v.GUID); !errors.As(err, &dependants) || len(dependants.Snapshots) != 1 || dependants.Snapshots[0].UID != "" {
		t.Errorf("with a snapshot of somebody else: %v", err)
	}
	run(t, h, "destroy", v.Dataset+"@daily")
	if err := m.Destroy(t.Context(), p, spec, v.GUID); err != nil {
		t.Error(err)
	}
	run(t, h, "list", block+"@"+snap.ID)
	run(t, h, "list", block+"/a-copy@"+snap.ID)
}
