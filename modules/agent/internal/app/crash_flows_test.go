package app_test

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
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

const larger = 2 * sliceSize

// driveFlows are what an agent does with volumes on drives, whatever the backend.
func driveFlows() []flow {
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
	}
}

// inventoryFlow is what becomes of the hardware.
func inventoryFlow() flow {
	return flow{
		name: "inventory", arrange: func(w *world) { w.delete(w.node.Device()) }, action: nothing,
		run: (*agent).reports,
		check: func(w *world) []string {
			n := &v1alpha1.RDMAStorageNode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
			if !w.reload(n) || len(n.Spec.Portals) != 1 || condition(n.Status.Conditions, v1alpha1.ConditionReady) != "True/AgentReady" {
				return []string{fmt.Sprintf("RDMAStorageNode = %+v", n)}
			}
			return nil
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
