package carvetest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/api/capacity"
)

// Keep answers these slices to Grow.
func Keep(slices ...carve.Slice) func(context.Context) ([]carve.Slice, error) {
	return func(context.Context) ([]carve.Slice, error) { return slices, nil }
}

func mustGrow(t *testing.T, e Env, s carve.Slice) carve.Volume {
	t.Helper()
	v, err := e.Manager.Grow(t.Context(), e.Drive, s, Keep())
	if err != nil {
		t.Fatalf("Grow: %v", err)
	}
	return v
}

// wantGrown checks that the volume, the table and the kernel have the new size.
func wantGrown(t *testing.T, e Env, before, after carve.Volume, units int64) {
	t.Helper()
	want := before
	want.SizeBytes, want.Dev = units*capacity.Unit, after.Dev
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	list, err := e.Manager.List(t.Context(), e.Drive)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		if v.UUID == after.UUID && !cmp.Equal(v, after) {
			t.Errorf("listed (-grown +listed):\n%s", cmp.Diff(after, v))
		}
	}
	if !e.Dirty(t, before.StartBytes, before.SizeBytes) {
		t.Error("the volume lost its data")
	}
}

func growInPlace(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 2))
	e.Write(t, v.StartBytes, v.SizeBytes)
	wantGrown(t, e, v, mustGrow(t, e, SliceOf("a", 5)), 5)
	again := mustGrow(t, e, SliceOf("a", 5))
	wantGrown(t, e, v, again, 5)
	if diff := cmp.Diff(again, mustCreate(t, e, SliceOf("a", 5))); diff != "" {
		t.Errorf("Create with the new size (-grown +created):\n%s", diff)
	}
	wantVolumes(t, e, SliceOf("a", 5))
}

func growOpen(t *testing.T, e Env) {
	mustInit(t, e)
	a, b := mustCreate(t, e, SliceOf("a", 2)), mustCreate(t, e, SliceOf("b", 2))
	e.Write(t, b.StartBytes, b.SizeBytes)
	defer e.Open(t, a)()
	defer e.Open(t, b)()
	got := mustGrow(t, e, SliceOf("b", 6))
	wantGrown(t, e, b, got, 6)
	if got.Dev != b.Dev {
		t.Errorf("device %s became %s: who has it open does not see the growth", b.Dev, got.Dev)
	}
	wantVolumes(t, e, SliceOf("a", 2), SliceOf("b", 6))
}

func growthIsBlank(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 2))
	e.Write(t, v.StartBytes+v.SizeBytes, 8*capacity.Unit) // from before the drive was ours
	mustGrow(t, e, SliceOf("a", 10))
	if e.Dirty(t, v.StartBytes+v.SizeBytes, 8*capacity.Unit) {
		t.Error("the volume grew over old data")
	}
}

func growNoSpace(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 2))
	mustCreate(t, e, SliceOf("gap", 3))
	mustCreate(t, e, SliceOf("c", 2))
	mustDelete(t, e, SliceOf("gap", 3))
	e.Write(t, v.StartBytes, v.SizeBytes)
	_, err := e.Manager.Grow(t.Context(), e.Drive, SliceOf("a", 6), Keep())
	wantError(t, "Grow", err, carve.ErrNoSpace)
	if err != nil && (!strings.Contains(err.Error(), "to 25165824 bytes") || !strings.Contains(err.Error(), "12582912 bytes are free behind it")) {
		t.Errorf("error %q does not say what was asked for and what there is", err)
	}
	wantVolumes(t, e, SliceOf("a", 2), SliceOf("c", 2))
	wantGrown(t, e, v, mustGrow(t, e, SliceOf("a", 5)), 5)
	_, err = e.Manager.Grow(t.Context(), e.Drive, SliceOf("a", 6), Keep())
	wantError(t, "Grow into the neighbour", err, carve.ErrNoSpace)
	_, err = e.Manager.Grow(t.Context(), e.Drive, SliceOf("none", 6), Keep())
	wantError(t, "Grow of nothing", err, carve.ErrInvalid)
}

func growYields(t *testing.T, e Env) {
	mustInit(t, e)
	mustCreate(t, e, SliceOf("a", 2))
	s, err := e.Manager.Survey(t.Context(), e.Drive, false)
	if err != nil {
		t.Fatal(err)
	}
	free := s.LargestFree / capacity.Unit
	placed := SliceOf("placed", free-3)
	_, err = e.Manager.Grow(t.Context(), e.Drive, SliceOf("a", 6), Keep(placed))
	wantError(t, "Grow", err, carve.ErrNoSpace)
	if err != nil && !strings.Contains(err.Error(), "placed on the drive come first") {
		t.Errorf("error %q does not say why", err)
	}
	wantVolumes(t, e, SliceOf("a", 2))
	if _, err := e.Manager.Grow(t.Context(), e.Drive, SliceOf("a", 5), Keep(placed, SliceOf("a", 2))); err != nil {
		t.Errorf("Grow by what is left: %v", err)
	}
	mustCreate(t, e, placed)
}

func growNeverShrinks(t *testing.T, e Env) {
	mustInit(t, e)
	v := mustCreate(t, e, SliceOf("a", 4))
	if diff := cmp.Diff(v, mustGrow(t, e, SliceOf("a", 2))); diff != "" {
		t.Errorf("volume (-before +after):\n%s", diff)
	}
}

func survey(t *testing.T, e Env) {
	look := func(blank bool) carve.Survey {
		t.Helper()
		s, err := e.Manager.Survey(t.Context(), e.Drive, blank)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	empty := look(true)
	if empty.LargestFree < capacity.Allocatable(e.Drive.SizeBytes) {
		t.Errorf("a blank drive of %d bytes has %d free, less than is allocatable", e.Drive.SizeBytes, empty.LargestFree)
	}
	changes := e.Manager.Changes(e.Drive.Serial)
	mustInit(t, e)
	if diff := cmp.Diff(empty, look(false)); diff != "" {
		t.Errorf("survey (-blank +initialised):\n%s", diff)
	}
	mustCreate(t, e, SliceOf("a", 3))
	if e.Manager.Changes(e.Drive.Serial) == changes {
		t.Error("the changes were not counted")
	}
	changes = e.Manager.Changes(e.Drive.Serial)
	got := look(false)
	if want := empty.LargestFree - 3*capacity.Unit; got.LargestFree != want || len(got.Volumes) != 1 || got.Volumes[0].UUID != SliceOf("a", 3).UUID || len(got.Others) != 0 {
		t.Errorf("survey = %+v, want the volume and %d bytes free", got, want)
	}
	mustCreate(t, e, carve.Slice{UUID: SliceOf("all", 1).UUID, Name: SliceOf("all", 1).Name, SizeBytes: got.LargestFree})
	if got := look(false); got.LargestFree != 0 {
		t.Errorf("%d bytes are free on a full drive", got.LargestFree)
	}
	if e.Manager.Changes(e.Drive.Serial) == changes {
		t.Error("the change was not counted")
	}
}

func deleteInSteps(t *testing.T, e Env) {
	mustInit(t, e)
	const units = 3*Step/capacity.Unit + 1
	v := mustCreate(t, e, SliceOf("a", units))
	sibling := mustCreate(t, e, SliceOf("b", 1))
	for i := range units {
		e.Write(t, v.StartBytes+i*capacity.Unit, capacity.Unit)
	}
	e.Write(t, sibling.StartBytes, sibling.SizeBytes)
	mustDelete(t, e, SliceOf("a", units))
	wantVolumes(t, e, SliceOf("b", 1))
	if e.Dirty(t, v.StartBytes, v.SizeBytes) || !e.Dirty(t, sibling.StartBytes, sibling.SizeBytes) {
		t.Error("the region still has data, or its neighbour lost it")
	}
}
