package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/agent/internal/zfs/zfstest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// ready is the condition of a Snapshot, and what it says.
func (w *world) ready(s *v1alpha1.Snapshot) (got, says string) {
	w.t.Helper()
	w.reload(s)
	return condition(s.Status.Conditions, v1alpha1.ConditionReadyToUse), message(s.Status.Conditions, v1alpha1.ConditionReadyToUse)
}

func TestSnapshotIsTakenAndWrittenOnce(t *testing.T) {
	w, a, v := zvolExported(t)
	s := snapshotOf(w, v)
	w.create(s)
	if diff := cmp.Diff(map[string]int{"Snapshot/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got, says := w.ready(s); got != "True/SnapshotTaken" {
		t.Errorf("ReadyToUse = %s: %s", got, says)
	}
	st := s.Status
	name := v.Status.DatasetPath + "@" + identity.SnapshotID(string(s.UID))
	if !st.ReadyToUse || st.Size != sliceSize || st.CreatedAt == nil || st.BackendName != name || st.BackendGUID == "" ||
		st.PoolGUID != volumetest.PoolGUID || st.Filesystem != nil {
		t.Errorf("status = %+v", st)
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("an idle agent wrote %v", got)
	}
	w.zfs("destroy", name)
	from := w.calls()
	a = w.boot()
	a.mustSettle()
	if got := w.changing(from); len(got) > 0 {
		t.Errorf("a snapshot that was lost was taken anew: %v", got)
	}
	w.create(restored(w))
	_ = a.settle()
	r := restored(w)
	w.reload(r)
	if got := condition(r.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/SourceGone" {
		t.Errorf("restored from a lost snapshot: %s", got)
	}
	w.delete(s)
	w.delete(r)
	if err := a.settle(); err != nil || w.reload(s) || w.reload(r) {
		t.Errorf("deletion of what was lost: %v", err)
	}
}

func TestSnapshotsThatCannotBeTakenSayWhy(t *testing.T) {
	destroyed := func(w *world, v *v1alpha1.Volume) {
		w.node.Pools.SetOpen(nil)
		w.zfs("destroy", v.Status.DatasetPath)
	}
	for name, c := range map[string]struct {
		change func(*world, *v1alpha1.Volume, *v1alpha1.Snapshot)
		want   string
		says   string
	}{
		"a partition": {func(_ *world, _ *v1alpha1.Volume, s *v1alpha1.Snapshot) {
			s.Spec.Source.Kind = v1alpha1.KindNVMePartition
		}, "False/SourceUnsupported", "only volumes of pools"},
		"no such volume": {func(_ *world, _ *v1alpha1.Volume, s *v1alpha1.Snapshot) { s.Spec.Source.Name = "other" }, "False/SourceGone", "other"},
		"another life":   {func(_ *world, _ *v1alpha1.Volume, s *v1alpha1.Snapshot) { s.Spec.Source.UID = "1" }, "False/SourceGone", "UID 1"},
		"is being deleted": {func(w *world, v *v1alpha1.Volume, _ *v1alpha1.Snapshot) {
			w.create(w.node.Attachment(v, consumer)) // keeps it
			w.delete(v)
		}, "False/SourceGone", "being deleted"},
		"the zvol is lost": {func(w *world, v *v1alpha1.Volume, _ *v1alpha1.Snapshot) { destroyed(w, v) }, "False/SourceGone", "does not exist"},
		"the zvol is another one": {func(w *world, v *v1alpha1.Volume, _ *v1alpha1.Snapshot) {
			destroyed(w, v)
			w.zfs("create", "-V", "64M", "-o", "distort:volume-uid="+string(v.UID), v.Status.DatasetPath)
		}, "False/SnapshotFailed", "is recorded"},
		"somebody has its name": {func(w *world, v *v1alpha1.Volume, s *v1alpha1.Snapshot) {
			w.zfs("snapshot", v.Status.DatasetPath+"@"+identity.SnapshotID(string(s.UID)))
		}, "False/SnapshotFailed", "distort:volume-uid"},
		"no room for what is overwritten": {func(w *world, v *v1alpha1.Volume, _ *v1alpha1.Snapshot) {
			w.node.Pools.Fill(v.Status.DatasetPath, 60*mib)
			w.zfs("create", "-V", "900M", "tank/full")
		}, "False/NoSpace", "out of space"},
		"the pool is suspended": {func(w *world, _ *v1alpha1.Volume, _ *v1alpha1.Snapshot) { w.node.Pools.SetHealth("tank", "SUSPENDED") }, "False/SourceNotReady", "suspended"},
		"the pool is elsewhere": {func(w *world, _ *v1alpha1.Volume, _ *v1alpha1.Snapshot) { w.node.Pools.Take("tank") }, "False/SourceNotReady", "not imported"},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, v := zvolExported(t)
			s := snapshotOf(w, v)
			c.change(w, v, s)
			w.create(s)
			_ = a.settle()
			if got, says := w.ready(s); got != c.want || !strings.Contains(says, c.says) || s.Status.ReadyToUse || s.Status.BackendGUID != "" {
				t.Errorf("ReadyToUse = %s: %q, want %s: %q", got, says, c.want, c.says)
			}
			mine := func() bool {
				return slices.ContainsFunc(w.node.Pools.Snapshots(), func(z zfstest.Snap) bool { return z.UID == string(s.UID) })
			}
			if mine() {
				t.Errorf("a snapshot was taken: %+v", w.node.Pools.Snapshots())
			}
		})
	}
}

// The node that formats a volume mounts it as soon as its attachment says so.
func TestSnapshotsKnowAFormatThatOnlyAnAttachmentKnows(t *testing.T) {
	w, a, v := zvolExported(t)
	at := w.node.Attachment(v, consumer)
	w.create(at)
	a.mustSettle()
	setStatus(w, at, func(at *v1alpha1.NVMeVolumeAttachment) { at.Status.Filesystem = volumetest.Formatted(v) })
	s, c := snapshotOf(w, v), copied(w)
	w.create(s)
	w.create(c)
	if _, err := a.snapshots.Reconcile(t.Context(), requestOf(s)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.reconcileVolume(c); err != nil {
		t.Fatal(err)
	}
	w.reload(s)
	w.reload(c)
	for name, got := range map[string]*v1alpha1.FilesystemStatus{"snapshot": s.Status.Filesystem, "copy": c.Status.Filesystem} {
		if diff := cmp.Diff(volumetest.Formatted(v), got); diff != "" {
			t.Errorf("format record of the %s (-want +got):\n%s", name, diff)
		}
	}
}

// What is restored has its own identity, size, space and export, and the format
// record of its source.
func TestRestoredVolume(t *testing.T) {
	w := newWorld(t)
	withSnapshot(w)
	a := w.boot()
	a.mustSettle()
	free := w.storageNode().Status.Pools[0].FreeBytes
	r := restored(w)
	w.create(r)
	if diff := cmp.Diff(map[string]int{"Volume/status": 1, "StorageNode/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	source := zvolOf(w)
	w.reload(source)
	w.reload(r)
	state, _ := w.state(r)
	if r.Status.State != v1alpha1.VolumeReadyToPublish || r.Status.ActualCapacity != larger || r.Status.DatasetGUID == source.Status.DatasetGUID ||
		r.Status.DeviceGUID != identity.NamespaceUUID(string(r.UID)) || len(state.Namespaces) != 1 {
		t.Errorf("status = %+v, exported as %+v", r.Status, state)
	}
	if diff := cmp.Diff(volumetest.Formatted(source), r.Status.Filesystem); diff != "" {
		t.Errorf("format record (-want +got):\n%s", diff)
	}
	if now := w.storageNode().Status.Pools[0].FreeBytes; now > free-larger || !w.contained(r) {
		t.Errorf("%d bytes are free, before %d: the clone has no space of its own", now, free)
	}
	for name, change := range map[string]func(*v1alpha1.Volume){
		"larger-blocks-than-its-source": func(v *v1alpha1.Volume) { v.Spec.VolBlockSize = 128 << 10 },
		"another-life-of-the-snapshot":  func(v *v1alpha1.Volume) { v.Spec.SourceSnapshot.UID = "1" },
	} {
		v := w.node.Volume(name, larger)
		v.Spec.SourceSnapshot = r.Spec.SourceSnapshot.DeepCopy()
		change(v)
		w.create(v)
		_ = a.settle()
		w.reload(v)
		if v.Status.State != v1alpha1.VolumeError || v.Status.DatasetGUID != "" {
			t.Errorf("%s: %+v", name, v.Status)
		}
		w.delete(v)
		a.mustSettle()
	}
}

// A snapshot outlives its volume, whose deletion waits until what is restored can take
// the snapshot over.
func TestRestoreNeedsNothingButTheSnapshotSN10(t *testing.T) {
	w := newWorld(t)
	withSnapshot(w)
	a := w.boot()
	source, r := zvolOf(w), restored(w)
	w.delete(source)
	a.mustSettle()
	w.waitsForDependants(source, nil)
	if !w.reload(source) || len(w.node.Exports(t)) != 0 {
		t.Errorf("the source is there: %t, exports: %v", w.reload(source), w.node.Exports(t))
	}
	w.create(r)
	a.mustSettle()
	w.works(r)
	w.works(snapshotOf(w, source))
	if w.reload(source) {
		t.Errorf("the source is still there: %s", message(source.Status.Conditions, v1alpha1.ConditionExported))
	}
}

// Volumes, their snapshots and what was made of them are deleted in any order: each
// goes at once, or says what it waits for (known faults SN4, SN5, DV5).
func TestFamiliesAreDeletedInAnyOrder(t *testing.T) {
	names := []string{"source", "snapshot", "restored", "copied"}
	for _, order := range permutations(names) {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			w := newWorld(t)
			withSnapshot(w)
			w.create(restored(w))
			w.create(copied(w))
			a := w.boot()
			a.mustSettle()
			for i, name := range order {
				o := family(w)[name]
				w.delete(o)
				_ = a.settle()
				w.waitsForDependants(o, order[:i])
				for _, other := range order[i+1:] {
					w.works(family(w)[other])
				}
			}
			a.mustSettle()
			for _, left := range familyGone(w) {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// waitsForDependants checks that an object which is being deleted is gone, or is a
// volume that names a snapshot which nobody has deleted yet.
func (w *world) waitsForDependants(o client.Object, deleted []string) {
	w.t.Helper()
	if !w.reload(o) {
		return
	}
	v, ok := o.(*v1alpha1.Volume)
	if !ok {
		w.t.Errorf("%s is still there", o.GetName())
		return
	}
	got, says := condition(v.Status.Conditions, v1alpha1.ConditionExported), message(v.Status.Conditions, v1alpha1.ConditionExported)
	if got != "False/HasDependants" || !strings.Contains(says, "waits for snapshots: snapshot-1") || slices.Contains(deleted, "snapshot") {
		w.t.Errorf("%s is still there: %s: %s", v.Name, got, says)
	}
}

// works checks that an object which nobody has deleted is as it was.
func (w *world) works(o client.Object) {
	w.t.Helper()
	w.reload(o)
	switch o := o.(type) {
	case *v1alpha1.Snapshot:
		if !o.Status.ReadyToUse {
			w.t.Errorf("the snapshot is not ready: %+v", o.Status)
		}
	case *v1alpha1.Volume:
		state, _ := w.state(o)
		found := slices.ContainsFunc(w.node.Pools.Zvols(), func(z zfstest.Zvol) bool { return z.GUID == o.Status.DatasetGUID })
		if o.Status.State != v1alpha1.VolumeReadyToPublish || len(state.Namespaces) != 1 || !found {
			w.t.Errorf("%s is %s, exported as %+v, its zvol exists: %t", o.Name, o.Status.State, state, found)
		}
	}
}

func permutations(of []string) [][]string {
	if len(of) < 2 {
		return [][]string{slices.Clone(of)}
	}
	var out [][]string
	for i := range of {
		for _, rest := range permutations(slices.Delete(slices.Clone(of), i, i+1)) {
			out = append(out, append([]string{of[i]}, rest...))
		}
	}
	return out
}

// What others made of a volume keeps it, is named, and is not destroyed.
func TestVolumeWaitsForWhatOthersMadeOfIt(t *testing.T) {
	w, a, v := zvolExported(t)
	w.zfs("snapshot", v.Status.DatasetPath+"@daily")
	w.zfs("clone", v.Status.DatasetPath+"@daily", "tank/theirs")
	w.delete(v)
	_ = a.settle()
	w.reload(v)
	got, says := condition(v.Status.Conditions, v1alpha1.ConditionExported), message(v.Status.Conditions, v1alpha1.ConditionExported)
	if got != "False/HasDependants" || !strings.Contains(says, "@daily") || !strings.Contains(says, "tank/theirs") {
		t.Errorf("Exported = %s: %s", got, says)
	}
	w.zfs("destroy", "tank/theirs")
	_ = a.settle()
	if w.reload(v); !strings.Contains(message(v.Status.Conditions, v1alpha1.ConditionExported), "@daily (which no Snapshot names)") {
		t.Errorf("waits for: %s", message(v.Status.Conditions, v1alpha1.ConditionExported))
	}
	w.zfs("destroy", v.Status.DatasetPath+"@daily")
	a.mustSettle()
	if left := zvolGone(w); len(left) > 0 {
		t.Error(left)
	}
}

// A snapshot goes when the pool answers, or when somebody gives its data up.
func TestSnapshotOfAMissingPoolWaitsForIt(t *testing.T) {
	w, a, v := zvolExported(t)
	s := snapshotOf(w, v)
	w.create(s)
	a.mustSettle()
	pool := w.node.Pools.Take("tank")
	w.delete(s)
	_ = a.settle()
	if got, says := w.ready(s); got != "False/Deleting" || !strings.Contains(says, "waits for the pool") || s.Status.ReadyToUse {
		t.Errorf("ReadyToUse = %s: %s", got, says)
	}
	before := s.DeepCopy()
	s.Annotations = map[string]string{v1alpha1.AbandonDataAnnotation: string(s.UID)}
	w.must(w.api.Patch(t.Context(), s, client.MergeFrom(before)))
	_ = a.settle()
	if w.reload(s) {
		t.Error("the abandoned snapshot is still there")
	}
	w.node.Pools.Give(pool)
	if n := len(w.node.Pools.Snapshots()); n != 1 {
		t.Errorf("%d snapshots on the pool that came back; nothing of it may be destroyed", n)
	}
}
