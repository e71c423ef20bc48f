package carvetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/identity"
)

// Env is one drive of at least 512 MiB, blank at first, for the suite.
type Env struct {
	Manager carve.VolumeManager
	Drive   inventory.Drive
	// Open opens a volume as an export does, without a claim; the result closes it.
	Open func(t *testing.T, v carve.Volume) (done func())
	// Hold claims a volume as a mount does.
	Hold func(t *testing.T, v carve.Volume) (done func())
	// Write puts data at the head, middle and tail of a region of the drive.
	Write func(t *testing.T, start, size int64)
	// Dirty says whether a region has such data.
	Dirty func(t *testing.T, start, size int64) bool
	// Foreign puts somebody else's signature on the blank drive.
	Foreign func(t *testing.T)
	// DamageTable spoils the primary copy of the table.
	DamageTable func(t *testing.T)
	// Kernel returns the partitions that the kernel knows.
	Kernel func(t *testing.T) []inventory.Partition
}

// SliceOf is a slice for the volume with a made-up UID.
func SliceOf(uid string, units int64) carve.Slice {
	return carve.Slice{UUID: identity.PartitionUUID(uid), Name: identity.ExternalID(uid), SizeBytes: units * capacity.Unit}
}

// RunSuite is what every carve.VolumeManager must do. newEnv returns a new blank
// drive each time.
func RunSuite(t *testing.T, newEnv func(t *testing.T) Env) {
	tests := map[string]func(t *testing.T, e Env){
		"a blank drive is carved only after Init":             blankNeedsInit,
		"Init of an initialised drive changes nothing":        initTwice,
		"a foreign drive is refused and left alone":           foreignRefused,
		"a damaged table is refused":                          damagedRefused,
		"a volume has exactly the size asked for":             exactSize,
		"Create again returns the same volume with its data":  createTwice,
		"another size under the same UUID is a conflict":      sizeConflict,
		"volumes come and go while a sibling is open":         siblingOpen,
		"a deleted volume is gone and its region reads zero":  deleteZeroes,
		"a reused region shows no old data":                   reuseIsBlank,
		"an open volume is not deleted and keeps its data":    openIsBusy,
		"a held volume is not deleted and keeps its data":     heldIsBusy,
		"too large a volume is refused and nothing is made":   noSpace,
		"a gap in the middle is used":                         gapIsUsed,
		"an impossible request is refused before any change":  invalidRequests,
		"allocatable capacity can be given out in full":       allocatableFits,
		"old data that no table speaks of is zeroed at first": staleDataIsZeroed,
		"a volume grows in place with its data":               growInPlace,
		"an open volume grows in place beside open siblings":  growOpen,
		"growth shows no old data":                            growthIsBlank,
		"growth beyond the space behind is refused":           growNoSpace,
		"growth yields to slices that are yet to be made":     growYields,
		"a volume never shrinks":                              growNeverShrinks,
		"a survey says what is there and what is free":        survey,
		"a large volume is deleted in steps":                  deleteInSteps,
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) { run(t, newEnv(t)) })
	}
}

func mustInit(t *testing.T, e Env) {
	t.Helper()
	if err := e.Manager.Init(t.Context(), e.Drive); err != nil {
		t.Fatalf("Init: %v", err)
	}
}

func mustCreate(t *testing.T, e Env, s carve.Slice) carve.Volume {
	t.Helper()
	v, err := e.Manager.Create(t.Context(), e.Drive, s)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return v
}

func mustDelete(t *testing.T, e Env, s carve.Slice) {
	t.Helper()
	if err := e.Manager.Delete(t.Context(), e.Drive, s.UUID); err != nil {
		t.Fatalf("Delete: %v", err)
	}
}

func uuids(t *testing.T, e Env) []string {
	t.Helper()
	list, err := e.Manager.List(t.Context(), e.Drive)
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	var out []string
	for _, v := range list {
		out = append(out, v.UUID)
	}
	slices.Sort(out)
	return out
}

func wantVolumes(t *testing.T, e Env, want ...carve.Slice) {
	t.Helper()
	var names []string
	for _, s := range want {
		names = append(names, s.UUID)
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, uuids(t, e)); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
	if kernel := e.Kernel(t); len(kernel) != len(want) {
		t.Errorf("the kernel has %d partitions, want %d: %+v", len(kernel), len(want), kernel)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error = %v, want %v", what, err, want)
	}
}

func blankNeedsInit(t *testing.T, e Env) {
	_, err := e.Manager.List(t.Context(), e.Drive)
	wantError(t, "List", err, carve.ErrNotInitialised)
	_, err = e.Manager.Create(t.Context(), e.Drive, SliceOf("a", 1))
	wantError(t, "Create", err, carve.ErrNotInitialised)
	if err := e.Manager.Delete(t.Context(), e.Drive, SliceOf("a", 1).UUID); err != nil {
		t.Errorf("Delete on a blank drive: %v", err)
	}
	mustInit(t, e)
	wantVolumes(t, e)
}

func initTwice(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 2))
	e.Write(t, v.StartBytes, v.SizeBytes)
	mustInit(t, e)
	wantVolumes(t, e, SliceOf("a", 2))
	if !e.Dirty(t, v.StartBytes, v.SizeBytes) {
		t.Error("the volume lost its data")
	}
}

func foreignRefused(t *testing.T, e Env) {
	e.Foreign(t)
	for range 2 { // the first refusal must not have changed anything
		wantError(t, "Init", e.Manager.Init(t.Context(), e.Drive), carve.ErrForeign)
		_, err := e.Manager.Create(t.Context(), e.Drive, SliceOf("a", 1))
		wantError(t, "Create", err, carve.ErrForeign)
		wantError(t, "Delete", e.Manager.Delete(t.Context(), e.Drive, SliceOf("a", 1).UUID), carve.ErrForeign)
	}
}

func damagedRefused(t *testing.T, e Env) {
	mustInit(t, e)
	mustCreate(t, e, SliceOf("a", 1))
	e.DamageTable(t)
	wantError(t, "Init", e.Manager.Init(t.Context(), e.Drive), carve.ErrDamaged)
	_, err := e.Manager.Create(t.Context(), e.Drive, SliceOf("b", 1))
	wantError(t, "Create", err, carve.ErrDamaged)
	wantError(t, "Delete", e.Manager.Delete(t.Context(), e.Drive, SliceOf("a", 1).UUID), carve.ErrDamaged)
}

func exactSize(t *testing.T, e Env) {
	mustInit(t, e)
	s := SliceOf("a", 25)
	v := mustCreate(t, e, s)
	if v.UUID != s.UUID || v.Name != s.Name || v.SizeBytes != s.SizeBytes || v.StartBytes%capacity.Unit != 0 || v.StartBytes == 0 {
		t.Errorf("volume = %+v, want %+v at a multiple of %d", v, s, capacity.Unit)
	}
	kernel := e.Kernel(t)
	if len(kernel) != 1 || kernel[0].SizeBytes != s.SizeBytes || kernel[0].StartBytes != v.StartBytes ||
		kernel[0].Path != v.DevicePath || kernel[0].Dev != v.Dev {
		t.Errorf("kernel has %+v, volume is %+v", kernel, v)
	}
	list, err := e.Manager.List(t.Context(), e.Drive)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]carve.Volume{v}, list); diff != "" {
		t.Errorf("list (-created +listed):\n%s", diff)
	}
}

func createTwice(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 3))
	e.Write(t, v.StartBytes, v.SizeBytes)
	if diff := cmp.Diff(v, mustCreate(t, e, SliceOf("a", 3))); diff != "" {
		t.Errorf("second Create (-first +second):\n%s", diff)
	}
	wantVolumes(t, e, SliceOf("a", 3))
	if !e.Dirty(t, v.StartBytes, v.SizeBytes) {
		t.Error("the volume lost its data")
	}
}

func sizeConflict(t *testing.T, e Env) {
	mustInit(t, e)
	mustCreate(t, e, SliceOf("a", 3))
	_, err := e.Manager.Create(t.Context(), e.Drive, SliceOf("a", 4))
	wantError(t, "Create", err, carve.ErrConflict)
	wantVolumes(t, e, SliceOf("a", 3))
}

func siblingOpen(t *testing.T, e Env) {
	mustInit(t, e)
	a := mustCreate(t, e, SliceOf("a", 2))
	e.Write(t, a.StartBytes, a.SizeBytes)
	defer e.Open(t, a)()
	mustCreate(t, e, SliceOf("b", 2))
	mustCreate(t, e, SliceOf("c", 2))
	wantVolumes(t, e, SliceOf("a", 2), SliceOf("b", 2), SliceOf("c", 2))
	mustDelete(t, e, SliceOf("b", 2))
	mustCreate(t, e, SliceOf("d", 1))
	wantVolumes(t, e, SliceOf("a", 2), SliceOf("c", 2), SliceOf("d", 1))
	if !e.Dirty(t, a.StartBytes, a.SizeBytes) {
		t.Error("the open sibling lost its data")
	}
}

func deleteZeroes(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 6))
	e.Write(t, v.StartBytes, v.SizeBytes)
	for range 2 {
		mustDelete(t, e, SliceOf("a", 6))
		wantVolumes(t, e)
		if e.Dirty(t, v.StartBytes, v.SizeBytes) {
			t.Error("the region still has data")
		}
	}
}

func reuseIsBlank(t *testing.T, e Env) {
	mustInit(t, e)
	old := mustCreate(t, e, SliceOf("a", 6))
	e.Write(t, old.StartBytes, old.SizeBytes)
	mustDelete(t, e, SliceOf("a", 6))
	v := mustCreate(t, e, SliceOf("b", 6))
	if v.StartBytes != old.StartBytes {
		t.Fatalf("volume starts at %d, the deleted one at %d: nothing is reused", v.StartBytes, old.StartBytes)
	}
	if e.Dirty(t, v.StartBytes, v.SizeBytes) {
		t.Error("the new volume shows old data")
	}
}

func staleDataIsZeroed(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 3))
	// Behind the only volume: data from before the drive was ours.
	e.Write(t, v.StartBytes+v.SizeBytes, 3*capacity.Unit)
	b := mustCreate(t, e, SliceOf("b", 3))
	if e.Dirty(t, b.StartBytes, b.SizeBytes) {
		t.Error("the new volume shows old data")
	}
}

func openIsBusy(t *testing.T, e Env) { busy(t, e, e.Open) }

func heldIsBusy(t *testing.T, e Env) { busy(t, e, e.Hold) }

func busy(t *testing.T, e Env, use func(*testing.T, carve.Volume) func()) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 3))
	e.Write(t, v.StartBytes, v.SizeBytes)
	done := use(t, v)
	wantError(t, "Delete", e.Manager.Delete(t.Context(), e.Drive, v.UUID), carve.ErrBusy)
	if !e.Dirty(t, v.StartBytes, v.SizeBytes) {
		t.Error("the volume in use lost its data")
	}
	wantVolumes(t, e, SliceOf("a", 3))
	done()
	mustDelete(t, e, SliceOf("a", 3))
	wantVolumes(t, e)
}

func noSpace(t *testing.T, e Env) {
	mustInit(t, e)
	mustCreate(t, e, SliceOf("a", 1))
	units := e.Drive.SizeBytes / capacity.Unit
	_, err := e.Manager.Create(t.Context(), e.Drive, SliceOf("b", units))
	wantError(t, "Create", err, carve.ErrNoSpace)
	var full *carve.NoSpaceError
	if !errors.As(err, &full) || full.Wanted != units*capacity.Unit || full.Largest <= 0 || full.Largest > full.Free || full.Free >= full.Wanted {
		t.Errorf("error = %+v", full)
	}
	wantVolumes(t, e, SliceOf("a", 1))
}

func gapIsUsed(t *testing.T, e Env) {
	mustInit(t, e)
	var made []carve.Volume
	for i := range 4 {
		made = append(made, mustCreate(t, e, SliceOf(fmt.Sprint("v", i), 2)))
	}
	mustDelete(t, e, SliceOf("v1", 2))
	big := mustCreate(t, e, SliceOf("big", 3))
	small := mustCreate(t, e, SliceOf("small", 2))
	if small.StartBytes != made[1].StartBytes {
		t.Errorf("small volume at %d, the gap is at %d", small.StartBytes, made[1].StartBytes)
	}
	if big.StartBytes < made[3].StartBytes+made[3].SizeBytes {
		t.Errorf("big volume at %d does not fit there", big.StartBytes)
	}
	wantVolumes(t, e, SliceOf("v0", 2), SliceOf("v2", 2), SliceOf("v3", 2), SliceOf("big", 3), SliceOf("small", 2))
}

func invalidRequests(t *testing.T, e Env) {
	mustInit(t, e)
	good := SliceOf("a", 1)
	for name, change := range map[string]func(*carve.Slice){
		"upper-case UUID": func(s *carve.Slice) { s.UUID = "AAAAAAAA-0000-4000-8000-000000000001" },
		"no UUID":         func(s *carve.Slice) { s.UUID = "" },
		"script in UUID":  func(s *carve.Slice) { s.UUID += "\nlabel: dos" },
		"free name":       func(s *carve.Slice) { s.Name = `vol-1", start=0, name="` },
		"size 0":          func(s *carve.Slice) { s.SizeBytes = 0 },
		"odd size":        func(s *carve.Slice) { s.SizeBytes++ },
		"negative size":   func(s *carve.Slice) { s.SizeBytes = -capacity.Unit },
	} {
		s := good
		change(&s)
		_, err := e.Manager.Create(t.Context(), e.Drive, s)
		wantError(t, name, err, carve.ErrInvalid)
	}
	wantError(t, "Delete by name", e.Manager.Delete(t.Context(), e.Drive, good.Name), carve.ErrInvalid)
	wantError(t, "Delete by number", e.Manager.Delete(t.Context(), e.Drive, "1"), carve.ErrInvalid)
	d := e.Drive
	d.ReadOnly = true
	wantError(t, "read-only drive", e.Manager.Init(t.Context(), d), carve.ErrInvalid)
	wantVolumes(t, e)
}

func allocatableFits(t *testing.T, e Env) {
	mustInit(t, e)
	half := capacity.Allocatable(e.Drive.SizeBytes) / capacity.Unit / 2
	a, b := SliceOf("a", half), SliceOf("b", capacity.Allocatable(e.Drive.SizeBytes)/capacity.Unit-half)
	mustCreate(t, e, a)
	mustCreate(t, e, b)
	wantVolumes(t, e, a, b)
}
