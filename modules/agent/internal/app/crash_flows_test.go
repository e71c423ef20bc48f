package app_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func volumeOf(w *world) *v1alpha1.NVMePartition { return w.node.Partition("pvc-1", sliceSize) }

func createVolume(w *world) { w.create(volumeOf(w)) }

func attach(w *world) { w.create(w.node.Attachment(volumeOf(w), consumer)) }

func attached(w *world) { createVolume(w); attach(w) }

func nothing(*world) {}

func fine(*world) []string { return nil }

func detach(w *world) {
	at := w.node.Attachment(volumeOf(w), consumer)
	setStatus(w, at, func(at *v1alpha1.NVMeVolumeAttachment) { at.Status.Filesystem = volumetest.Formatted(volumeOf(w)) })
	w.delete(at)
}

// grow asks for more, as distort-csi does.
func grow(w *world, size int64) {
	p := volumeOf(w)
	w.reload(p)
	before := p.DeepCopy()
	p.Spec.Size, p.Generation = size, p.Generation+1
	if err := w.api.Patch(w.t.Context(), p, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// stranger puts a host on the volume's list that no attachment asks for.
func stranger(w *world) {
	w.must(w.node.AllowHost(volumeOf(w), "nqn.2014-08.org.example:stranger"))
}

// anyHost opens the volume to everybody.
func anyHost(w *world) {
	w.must(w.node.AllowAnyHost(volumeOf(w), identity.HostNQN(consumer)))
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ofDrives tells whether the flow is of volumes on drives, which every backend has.
func (f flow) ofDrives() bool { return !strings.HasPrefix(f.name, "pool-") && f.name != "inventory" }

const larger = 2 * sliceSize

// flows are what an agent does. Between them they come to every effect.
func flows() []flow {
	return []flow{
		{
			name: "provision", arrange: nothing,
			action: func(w *world) {
				p := volumeOf(w)
				p.Finalizers = nil // of a client that leaves them to the agent
				w.create(p)
				w.create(w.node.Partition("pvc-2", sliceSize))
				w.node.Drive.Write(4*mib, mib) // old data, where a volume will be
			},
			check: fine,
		},
		{
			name: "provision-refused", arrange: nothing,
			action:    func(w *world) { w.node.Occupy(true); createVolume(w) },
			run:       func(a *agent) error { return a.settleUnless("address") },
			meanwhile: func(w *world) { w.node.Occupy(false) },
			check:     fine,
		},
		{
			name: "provision-deleted", arrange: nothing, action: createVolume,
			meanwhile: func(w *world) { w.delete(volumeOf(w)) },
			check:     gone,
		},
		{name: "attach", arrange: createVolume, action: attach, check: fine},
		{
			name: "detach", arrange: attached, action: detach,
			check: func(w *world) []string {
				p := volumeOf(w)
				w.reload(p)
				if diff := cmp.Diff(volumetest.Formatted(p), p.Status.Filesystem); diff != "" {
					return []string{"format record (-want +got):\n" + diff}
				}
				return nil
			},
		},
		{
			name: "takeover", arrange: attached, action: detach,
			meanwhile: func(w *world) {
				if w.reload(w.node.Attachment(volumeOf(w), consumer)) {
					return // the attachment of the next node has the same name, and waits
				}
				w.create(w.node.Attachment(volumeOf(w), "consumer-1"))
			},
			check: fine,
		},
		{
			name: "grow",
			arrange: func(w *world) {
				attached(w)
				w.node.Drive.Write(4*mib+sliceSize, mib) // old data behind the slice
			},
			action: func(w *world) { grow(w, larger) },
			check:  grown(larger),
		},
		{
			name: "grow-unrecorded", arrange: nothing, action: createVolume,
			meanwhile: func(w *world) { grow(w, larger) },
			check:     fine,
		},
		{
			name: "delete",
			arrange: func(w *world) {
				createVolume(w)
				w.create(w.node.Partition("pvc-2", sliceSize))
			},
			action: func(w *world) {
				stranger(w)
				if w.node.SPDK == nil {
					w.must(w.node.Kernel.Mkdir("ports/77")) // of a call that was killed
				}
				w.delete(volumeOf(w))
				w.delete(w.node.Partition("pvc-2", sliceSize))
			},
			check: gone,
		},
		{name: "restart", arrange: attached, action: func(w *world) { w.node.Reboot() }, check: fine},
		{name: "repair-stranger", arrange: attached, action: stranger, check: fine},
		{name: "repair-any-host", arrange: attached, action: anyHost, check: fine},
		{
			name: "repair-namespace", arrange: attached,
			action: func(w *world) { w.must(w.node.SpoilNamespace(volumeOf(w))) },
			check:  fine,
		},
		{
			name: "endpoint", arrange: attached,
			action: func(w *world) {
				w.node.SetPortals(inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.7"), NUMANode: -1})
			},
			check: func(w *world) []string {
				p := volumeOf(w)
				w.reload(p)
				want := []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.7", Port: 4420}}
				if diff := cmp.Diff(want, p.Status.Portals); diff != "" {
					return []string{"portals (-want +got):\n" + diff}
				}
				return nil
			},
		},
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
			name: "pool-delete", arrange: withZvol,
			action: func(w *world) {
				v := zvolOf(w)
				w.reload(v)
				before := v.DeepCopy()
				v.Finalizers = append(v.Finalizers, keep)
				w.must(w.api.Patch(w.t.Context(), v, client.MergeFrom(before)))
				w.delete(v)
			},
			meanwhile: nil,
			check:     zvolDestroyed,
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
		{
			name: "inventory", arrange: func(w *world) { w.delete(w.node.Device()) }, action: nothing,
			run: (*agent).reports,
			check: func(w *world) []string {
				n := &v1alpha1.RDMAStorageNode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
				if !w.reload(n) || len(n.Spec.Portals) != 1 || condition(n.Status.Conditions, v1alpha1.ConditionReady) != "True/AgentReady" {
					return []string{fmt.Sprintf("RDMAStorageNode = %+v", n)}
				}
				return nil
			},
		},
	}
}

// reports is the life of a node's inventory: a drive and two addresses are new, the
// drive moves to another slot and an address goes, the drive is pulled out.
func (a *agent) reports() error {
	w := a.world
	look := func() error {
		if err := a.heartbeat.Renew(w.t.Context()); err != nil {
			return err
		}
		_, err := a.reporter.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: nodeName}})
		return err
	}
	for _, change := range []func(){
		func() {},
		func() {
			w.node.Move("0000:00:09.0")
			w.node.SetPortals(inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.1"), NUMANode: -1})
		},
		func() { w.node.Pull(true) },
		func() {},
	} {
		change()
		if err := look(); err != nil {
			return err
		}
	}
	return nil
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

// gone checks that the volume left nothing.
func gone(w *world) []string {
	var out []string
	if p := volumeOf(w); w.reload(p) {
		out = append(out, "the object is still there: "+message(p.Status.Conditions, v1alpha1.ConditionExported))
	}
	if left := w.node.Dump(); !slices.Equal(left, w.fresh().node.Dump()) {
		out = append(out, fmt.Sprintf("the node has %v", left))
	}
	return out
}

// grown checks that object, slice and target have the new size.
func grown(size int64) func(*world) []string {
	return func(w *world) []string {
		p := volumeOf(w)
		w.reload(p)
		var out []string
		if got := condition(p.Status.Conditions, v1alpha1.ConditionResized); got != "True/Resized" {
			out = append(out, "Resized = "+got)
		}
		host, err := w.node.Connect(consumer, p)
		if err != nil {
			return append(out, "the host cannot connect: "+err.Error())
		}
		if served, err := host.Size(identity.NSID); err != nil || served != size || p.Status.AllocatedCapacity != size {
			out = append(out, fmt.Sprintf("served are %d bytes (%v), allocated %d, want %d", served, err, p.Status.AllocatedCapacity, size))
		}
		return out
	}
}
