package gpt_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/command/commandtest"
)

// kills runs change with a kill before and after each of its steps, and then
// check on the drive with a new manager, as after a restart; with reboot, the
// kernel has read the table again in between.
func kills(t *testing.T, prepare, change func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error,
	check func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager)) {
	t.Helper()
	points := 0
	for _, mode := range []struct {
		name   string
		after  bool
		reboot bool
	}{{"before", false, false}, {"after", true, false}, {"after, then reboot", true, true}} {
		for n := 0; ; n++ {
			d := carvetest.NewDrive("FAKE0001", 1<<30)
			m := d.Manager(t)
			if err := prepare(t, d, m); err != nil {
				t.Fatal(err)
			}
			if mode.after {
				d.Runner().KillAfter(n)
			} else {
				d.Runner().KillBefore(n)
			}
			err := change(t, d, m)
			if !d.Runner().Killed() {
				if err != nil {
					t.Fatal(err)
				}
				break // change has fewer steps than n
			}
			if !errors.Is(err, commandtest.ErrKilled) {
				t.Errorf("%s step %d: error = %v, want that of the kill", mode.name, n, err)
			}
			points++
			d.Runner().Revive()
			if mode.reboot {
				d.Reread()
			}
			t.Run(mode.name, func(t *testing.T) { check(t, d, d.Manager(t)) })
		}
	}
	if points < 15 {
		t.Fatalf("only %d kill points: the test does not reach the steps", points)
	}
	t.Logf("%d kill points", points)
}

func prepareSibling(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error {
	t.Helper()
	if err := m.Init(t.Context(), d.Inventory()); err != nil {
		return err
	}
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("sibling", 2))
	d.Write(v.StartBytes, v.SizeBytes)
	// Behind it there is old data, so that Create has something to zero.
	d.Write(v.StartBytes+v.SizeBytes, 1<<20)
	return err
}

func checkSibling(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) {
	t.Helper()
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("sibling", 2))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Dirty(v.StartBytes, v.SizeBytes); got != v.SizeBytes {
		t.Errorf("the sibling has %d bytes of its %d left", got, v.SizeBytes)
	}
}

func TestCreateKilledAnywhereIsFinishedByTheNextCreate(t *testing.T) {
	slice := carvetest.SliceOf("a", 3)
	kills(t, prepareSibling, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error {
		_, err := m.Create(t.Context(), d.Inventory(), slice)
		return err
	}, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) {
		v, err := m.Create(t.Context(), d.Inventory(), slice)
		if err != nil {
			t.Fatal(err)
		}
		if v.SizeBytes != slice.SizeBytes || v.DevicePath == "" || d.Dirty(v.StartBytes, v.SizeBytes) != 0 {
			t.Errorf("volume = %+v with %d bytes of old data", v, d.Dirty(v.StartBytes, v.SizeBytes))
		}
		if got := len(d.Entries()); got != 2 {
			t.Errorf("the table has %d entries, want 2: %+v", got, d.Entries())
		}
		checkSibling(t, d, m)
	})
}

func TestDeleteKilledAnywhereIsFinishedByTheNextDelete(t *testing.T) {
	slice := carvetest.SliceOf("a", 3)
	var start int64
	kills(t, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error {
		if err := prepareSibling(t, d, m); err != nil {
			return err
		}
		v, err := m.Create(t.Context(), d.Inventory(), slice)
		start = v.StartBytes
		d.Write(v.StartBytes, v.SizeBytes)
		return err
	}, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error {
		return m.Delete(t.Context(), d.Inventory(), slice.UUID)
	}, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) {
		if err := m.Delete(t.Context(), d.Inventory(), slice.UUID); err != nil {
			t.Fatal(err)
		}
		if got := d.Dirty(start, slice.SizeBytes); got != 0 {
			t.Errorf("%d bytes of the deleted volume are left", got)
		}
		kernel, err := d.Partitions(d.Inventory().Name)
		if err != nil || len(kernel) != 1 || len(d.Entries()) != 1 {
			t.Errorf("kernel has %+v, table has %+v; want only the sibling (%v)", kernel, d.Entries(), err)
		}
		checkSibling(t, d, m)
	})
}

// A half-deleted volume's region is never another volume's.
func TestKilledDeleteGivesNoRegionAway(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m := d.Manager(t)
	if err := prepareSibling(t, d, m); err != nil {
		t.Fatal(err)
	}
	a, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 3))
	if err != nil {
		t.Fatal(err)
	}
	d.Runner().KillAfter(3) // blkid, wipefs, sfdisk --json, partx -d
	if err := m.Delete(t.Context(), d.Inventory(), a.UUID); !errors.Is(err, commandtest.ErrKilled) {
		t.Fatalf("Delete = %v", err)
	}
	d.Runner().Revive()
	if kernel, _ := d.Partitions(d.Inventory().Name); len(kernel) != 1 || len(d.Entries()) != 2 {
		t.Fatalf("the kill did not fall between kernel and table: %+v, %+v", kernel, d.Entries())
	}
	b, err := d.Manager(t).Create(t.Context(), d.Inventory(), carvetest.SliceOf("b", 3))
	if err != nil {
		t.Fatal(err)
	}
	if b.StartBytes < a.StartBytes+a.SizeBytes && a.StartBytes < b.StartBytes+b.SizeBytes {
		t.Errorf("new volume at %d lies in the half-deleted one at %d", b.StartBytes, a.StartBytes)
	}
}

func TestInitKilledAnywhereIsFinishedByTheNextInit(t *testing.T) {
	for n := range 6 {
		d := carvetest.NewDrive("FAKE0001", 1<<30)
		d.Runner().KillAfter(n)
		_ = d.Manager(t).Init(t.Context(), d.Inventory())
		d.Runner().Revive()
		m := d.Manager(t)
		if err := m.Init(t.Context(), d.Inventory()); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		if diff := cmp.Diff(map[int]carvetest.Partition{}, d.Entries()); diff != "" {
			t.Errorf("step %d: table (-want +got):\n%s", n, diff)
		}
	}
}

func TestGrowKilledAnywhereIsFinishedByTheNextCall(t *testing.T) {
	for name, export := range map[string]bool{"idle": false, "exported": true} {
		t.Run(name, func(t *testing.T) {
			small, large := carvetest.SliceOf("a", 3), carvetest.SliceOf("a", 9)
			var before carve.Volume
			kills(t, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error {
				if err := prepareSibling(t, d, m); err != nil {
					return err
				}
				v, err := m.Create(t.Context(), d.Inventory(), small)
				before = v
				d.Write(v.StartBytes, v.SizeBytes)
				d.Write(v.StartBytes+v.SizeBytes, 1<<20) // old data behind it
				if export {
					d.Export(v.Number)
				}
				return err
			}, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) error {
				_, err := m.Grow(t.Context(), d.Inventory(), large, carvetest.Keep())
				return err
			}, func(t *testing.T, d *carvetest.Drive, m carve.VolumeManager) {
				// An agent that starts looks for the volume before it grows it.
				list, err := m.List(t.Context(), d.Inventory())
				if err != nil || len(list) != 2 {
					t.Fatalf("list = %+v, %v", list, err)
				}
				found := carve.Slice{UUID: small.UUID, Name: small.Name, SizeBytes: list[1].SizeBytes}
				if v, err := m.Create(t.Context(), d.Inventory(), found); err != nil || v.DevicePath != before.DevicePath || v.SizeBytes != found.SizeBytes {
					t.Fatalf("found %+v, %v", v, err)
				}
				v, err := m.Grow(t.Context(), d.Inventory(), large, carvetest.Keep())
				if err != nil || v.SizeBytes != large.SizeBytes || v.StartBytes != before.StartBytes || v.DevicePath != before.DevicePath {
					t.Fatalf("grown %+v, %v; before it was %+v", v, err, before)
				}
				if got := d.Dirty(v.StartBytes, v.SizeBytes); got != before.SizeBytes {
					t.Errorf("%d bytes are not zero, want the %d of the volume's data", got, before.SizeBytes)
				}
				checkSibling(t, d, m)
			})
		})
	}
}

// A deletion that is cut off again and again comes to its end, because the table
// says how far it came; nothing but the rest is zeroed again.
func TestDeletionThatIsCutOffGoesOnWhereItWas(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m := d.Manager(t)
	if err := m.Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 8*carvetest.Step>>22))
	if err != nil {
		t.Fatal(err)
	}
	d.Write(v.StartBytes, v.SizeBytes)
	left := d.Entries()[v.Number].Size
	for life := 1; ; life++ {
		// Enough for one step and not for two.
		d.Runner().KillAfter(14)
		err := d.Manager(t).Delete(t.Context(), d.Inventory(), v.UUID)
		killed := d.Runner().Killed()
		d.Runner().Revive()
		if err == nil {
			break
		}
		now := d.Entries()[v.Number].Size
		if !killed || now >= left {
			t.Fatalf("life %d: %d blocks are left of %d (%v)", life, now, left, err)
		}
		left = now
	}
	if got := d.Dirty(0, 1<<30); got != 0 || len(d.Entries()) != 0 {
		t.Errorf("%d bytes and %d entries are left", got, len(d.Entries()))
	}
}

// A region that was half zeroed when the agent died is not taken for blank.
func TestHalfZeroedRegionIsNotTakenForBlank(t *testing.T) {
	for n := range 16 {
		d := carvetest.NewDrive("FAKE0001", 1<<30)
		m := d.Manager(t)
		if err := m.Init(t.Context(), d.Inventory()); err != nil {
			t.Fatal(err)
		}
		slice := carvetest.SliceOf("a", 25)
		d.Write(4<<20, 4096)                    // the head, which shows
		d.Write(4<<20+slice.SizeBytes/4, 1<<20) // and what no sample sees
		d.Runner().KillAfter(n)
		_, _ = m.Create(t.Context(), d.Inventory(), slice)
		d.Runner().Revive()
		v, err := d.Manager(t).Create(t.Context(), d.Inventory(), slice)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Dirty(v.StartBytes, v.SizeBytes); got != 0 {
			t.Errorf("killed after step %d: the volume has %d bytes of old data", n, got)
		}
	}
}
