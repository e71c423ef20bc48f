package app_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// poolFlows are what an agent does with volumes on pools and their snapshots. With
// those of drives and inventory they come to every effect.
func poolFlows() []flow {
	return []flow{
		{
			name: "pool-provision", arrange: withPool,
			action: func(w *world) {
				v := zvolOf(w)
				v.Finalizers = nil
				w.create(v)
				w.create(w.node.Volume("zvol-2", sliceSize))
			},
			check: fine,
		},
		{
			name: "pool-provision-deleted", arrange: withPool, action: func(w *world) { w.create(zvolOf(w)) },
			meanwhile: func(w *world) { w.delete(zvolOf(w)) },
			check:     zvolGone,
		},
		{name: "pool-attach", arrange: withZvol, action: attachZvol, check: fine},
		{
			name: "pool-detach", arrange: func(w *world) { withZvol(w); attachZvol(w) },
			action: func(w *world) { w.delete(w.node.Attachment(zvolOf(w), consumer)) }, check: fine,
		},
		{
			name: "pool-grow", arrange: func(w *world) { withZvol(w); attachZvol(w) },
			action: func(w *world) { growZvol(w, larger) },
			check:  fine,
		},
		{
			name: "pool-grow-unrecorded", arrange: withPool, action: func(w *world) { w.create(zvolOf(w)) },
			meanwhile: func(w *world) { growZvol(w, larger) },
			check:     fine,
		},
		{
			name: "pool-modify",
			arrange: func(w *world) {
				withPool(w)
				v := zvolOf(w)
				v.Spec.Compression = "lz4"
				w.create(v)
				attachZvol(w)
			},
			action: func(w *world) { compressZvol(w, "zstd") },
			check:  compressed("zstd"),
		},
		{
			name: "pool-delete", arrange: withZvol,
			action: func(w *world) {
				v := zvolOf(w)
				w.reload(v)
				before := v.DeepCopy()
				v.Finalizers = append(v.Finalizers, keep)
				w.must(w.api.Patch(w.t.Context(), v, client.MergeFrom(before)))
				w.delete(v)
			},
			check: zvolDestroyed,
		},
		{name: "pool-restart", arrange: func(w *world) { withZvol(w); attachZvol(w) }, action: func(w *world) { w.node.Reboot() }, check: fine},
		{
			name: "snapshot", arrange: withZvol, check: fine,
			action: func(w *world) {
				s := snapshotOf(w, zvolOf(w))
				s.Finalizers = nil
				w.create(s)
			},
		},
		{
			name: "snapshot-deleted", arrange: withZvol, check: fine,
			action:    func(w *world) { w.create(snapshotOf(w, zvolOf(w))) },
			meanwhile: func(w *world) { w.delete(snapshotOf(w, zvolOf(w))) },
		},
		{name: "snapshot-restore", arrange: withSnapshot, action: func(w *world) { w.create(restored(w)) }, check: withFormat},
		{
			name: "snapshot-restore-deleted", arrange: withSnapshot, check: fine,
			action:    func(w *world) { w.create(restored(w)) },
			meanwhile: func(w *world) { w.delete(restored(w)) },
		},
		{name: "copy", arrange: withFormattedZvol, action: func(w *world) { w.create(copied(w)) }, check: withFormat},
		{
			name: "copy-deleted", arrange: withFormattedZvol, check: fine,
			action:    func(w *world) { w.create(copied(w)) },
			meanwhile: func(w *world) { w.delete(copied(w)) },
		},
		{
			name: "copy-without-source", arrange: withFormattedZvol, check: withFormat,
			action: func(w *world) { w.create(copied(w)) }, meanwhile: func(w *world) { w.delete(zvolOf(w)) },
		},
		familyDeletes("source"), familyDeletes("snapshot"), familyDeletes("restored"), familyDeletes("copied"),
	}
}

// withPool is a node with its pool, and without volumes.
func withPool(w *world) {
	w.node.Pools.Import("tank", volumetest.PoolGUID, driveSize)
	w.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	w.create(w.node.StorageNode())
}

func zvolOf(w *world) *v1alpha1.Volume { return w.node.Volume("zvol-1", sliceSize) }

func withZvol(w *world) {
	withPool(w)
	w.create(zvolOf(w))
}

// withFormattedZvol has a volume that a node has formatted.
func withFormattedZvol(w *world) {
	withZvol(w)
	setStatus(w, zvolOf(w), func(v *v1alpha1.Volume) { v.Status.Filesystem = volumetest.Formatted(v) })
}

// withSnapshot has a formatted volume and a snapshot of it.
func withSnapshot(w *world) {
	withFormattedZvol(w)
	if err := w.boot().settle(); err != nil {
		w.t.Fatal(err)
	}
	w.create(snapshotOf(w, zvolOf(w)))
	if err := w.boot().settle(); err != nil {
		w.t.Fatal(err)
	}
}

// family is a formatted volume, a snapshot of it, what was restored from that, and a
// copy of the volume, by the name that people have for them.
func family(w *world) map[string]client.Object {
	return map[string]client.Object{"source": zvolOf(w), "snapshot": snapshotOf(w, zvolOf(w)), "restored": restored(w), "copied": copied(w)}
}

// familyDeletes is the deletion of one of a family, and of the others while it goes.
func familyDeletes(first string) flow {
	return flow{
		name:    "family-delete-" + first,
		arrange: func(w *world) { withSnapshot(w); w.create(restored(w)); w.create(copied(w)) },
		action:  func(w *world) { w.delete(family(w)[first]) },
		meanwhile: func(w *world) {
			for name, o := range family(w) {
				if name != first {
					w.delete(o)
				}
			}
		},
		check: familyGone,
	}
}

// familyGone checks that nothing of a family is left.
func familyGone(w *world) []string {
	out := zvolsLeft(w)
	for name, o := range family(w) {
		if w.reload(o) {
			out = append(out, "the "+name)
		}
	}
	for _, s := range w.node.Pools.Snapshots() {
		out = append(out, "snapshot "+s.Name)
	}
	return out
}

func snapshotOf(w *world, v *v1alpha1.Volume) *v1alpha1.Snapshot {
	return w.node.Snapshot("snapshot-1", v)
}

// restored is a volume that is made of the snapshot, and is larger.
func restored(w *world) *v1alpha1.Volume {
	s := snapshotOf(w, zvolOf(w))
	v := w.node.Volume("restored", larger)
	v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: s.Name, UID: s.UID}
	return v
}

// copied is a volume that is a copy of the first one.
func copied(w *world) *v1alpha1.Volume {
	v := w.node.Volume("copied", sliceSize)
	source := zvolOf(w).GetReference()
	v.Spec.SourceVolume = &source
	return v
}

// withFormat checks that what was made of the volume begins with its format record.
func withFormat(w *world) []string {
	for _, v := range w.volumes() {
		if v.Spec.SourceSnapshot == nil && v.Spec.SourceVolume == nil {
			continue
		}
		if diff := cmp.Diff(volumetest.Formatted(zvolOf(w)), v.Status.Filesystem); diff != "" {
			return []string{"format record of " + v.Name + " (-want +got):\n" + diff}
		}
	}
	return nil
}

func attachZvol(w *world) { w.create(w.node.Attachment(zvolOf(w), consumer)) }

// growZvol asks for more, as distort-csi does.
func growZvol(w *world, size int64) {
	v := zvolOf(w)
	w.reload(v)
	before := v.DeepCopy()
	v.Spec.Capacity, v.Generation = size, v.Generation+1
	w.must(w.api.Patch(w.t.Context(), v, client.MergeFrom(before)))
}

// compressZvol asks for another compression, as distort-csi does.
func compressZvol(w *world, compression string) {
	v := zvolOf(w)
	w.reload(v)
	before := v.DeepCopy()
	v.Spec.Compression, v.Generation = compression, v.Generation+1
	w.must(w.api.Patch(w.t.Context(), v, client.MergeFrom(before)))
}

// compressed checks that zvol and status have the compression.
func compressed(want string) func(*world) []string {
	return func(w *world) []string {
		v := zvolOf(w)
		w.reload(v)
		got := []string{w.property("compression", v), v.Status.Compression, condition(v.Status.Conditions, v1alpha1.ConditionModified)}
		if want := []string{want, want, "True/Modified"}; !slices.Equal(want, got) {
			return []string{fmt.Sprintf("zvol, status and Modified are %q, want %q", got, want)}
		}
		return nil
	}
}

// property is one of the volume's zvol, as ZFS prints it.
func (w *world) property(name string, v *v1alpha1.Volume) string {
	w.t.Helper()
	r, err := w.node.Pools.Runner().Run(w.t.Context(), command.New("zfs", "get", "-Hp", "-o", "value", name, "tank/distort/block/"+identity.ExternalID(string(v.UID))))
	w.must(err)
	return strings.TrimSpace(string(r.Stdout))
}

func zvolGone(w *world) []string {
	var out []string
	if v := zvolOf(w); w.reload(v) {
		out = append(out, "the object is still there: "+message(v.Status.Conditions, v1alpha1.ConditionExported))
	}
	return append(out, zvolsLeft(w)...)
}

func zvolsLeft(w *world) []string {
	var out []string
	for _, z := range w.node.Pools.Zvols() {
		out = append(out, "zvol "+z.Dataset)
	}
	for _, nqn := range w.node.Exports(w.t) {
		out = append(out, "subsystem "+nqn)
	}
	return out
}

// zvolDestroyed lets the object go that somebody else kept until now.
func zvolDestroyed(w *world) []string {
	out := zvolsLeft(w)
	v := zvolOf(w)
	if !w.reload(v) || v.Status.State != v1alpha1.VolumeDestroyed || !slices.Equal(v.Finalizers, []string{keep}) {
		out = append(out, fmt.Sprintf("the object is %s with finalizers %v", v.Status.State, v.Finalizers))
	}
	return out
}
