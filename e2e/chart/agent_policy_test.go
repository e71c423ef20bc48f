package chart

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// denied wants that policy to refuse a write, which is tried without effect.
func denied(t *testing.T, policy string, write func(ctx context.Context) error) {
	t.Helper()
	if err := await(t.Context(), "policy "+policy+" denies", func(ctx context.Context) error {
		err := write(ctx)
		if deniedBy(err, policy) {
			return nil
		}
		return notDenied{err}
	}); err != nil {
		t.Error(err)
	}
}

// notDenied is another answer than the one that was wanted; nil says that the
// write went through.
type notDenied struct{ error }

func (n notDenied) Error() string {
	if n.error == nil {
		return "it was let through"
	}
	return n.error.Error()
}

// own wants a write to go through.
func own(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestAgentOwnNode plays what the agent of node-a writes (modules/agent): on what
// belongs to its node all of it goes through; on what belongs to node-b nothing
// does, nor without the node in the token. The policies match the service accounts that
// the pods of this chart have (known fault HD2): with another name all writes would go
// through.
func TestAgentOwnNode(t *testing.T) {
	installed(t)
	a, b, none := on(t, "agent", "node-a"), on(t, "agent", "node-b"), on(t, "agent", "")
	condition := metav1.Condition{Type: "HardwareAvailable", Status: metav1.ConditionTrue, Reason: "Discovered", LastTransitionTime: metav1.Now()}

	// Each case is one object, and the writes that its owner makes.
	for name, c := range map[string]struct {
		policy string
		object client.Object
		// agentMakes: the agent creates it, else the administrator does for CSI.
		agentMakes bool
		change     func(client.Object)
		status     func(client.Object)
	}{
		"drive": {
			policy: "distort-agent-drives", object: device("node-a", "policy-drive"), agentMakes: true,
			change: func(o client.Object) { o.(*v1alpha1.NVMeDevice).Spec.PCIAddress = "0000:3c:00.0" },
			status: func(o client.Object) {
				o.(*v1alpha1.NVMeDevice).Status.Conditions = []metav1.Condition{condition}
				o.(*v1alpha1.NVMeDevice).Status.ActiveBackend = v1alpha1.ActiveBackendKernel
			},
		},
		"storage node": {
			policy: "distort-agent-storage-node", object: storageNode("node-a"), agentMakes: true,
			change: func(o client.Object) {
				o.(*v1alpha1.RDMAStorageNode).Spec.Portals = []v1alpha1.NodePortal{{
					Portal: v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "192.0.2.1", Port: 4420}, Fabric: v1alpha1.FabricTCP,
				}}
			},
			status: func(o client.Object) { o.(*v1alpha1.RDMAStorageNode).Status.ActiveExports = 1 },
		},
		"partition": {
			policy: "distort-agent-partitions", object: partitionOn("node-a", "policy-pvc"),
			change: func(o client.Object) { controllerutil.AddFinalizer(o, v1alpha1.SliceFinalizer) },
			status: func(o client.Object) { o.(*v1alpha1.NVMePartition).Status.State = v1alpha1.PartitionExported },
		},
		"volume of a pool": {
			policy: "distort-agent-volumes", object: volumeOn("node-a", "policy-volume"),
			change: func(o client.Object) { controllerutil.AddFinalizer(o, v1alpha1.SliceFinalizer) },
			status: func(o client.Object) { o.(*v1alpha1.Volume).Status.State = v1alpha1.VolumeReady },
		},
		"snapshot": {
			policy: "distort-agent-snapshots", object: snapshotOn("node-a", "policy-snapshot"),
			change: func(o client.Object) { controllerutil.AddFinalizer(o, v1alpha1.SliceFinalizer) },
			status: func(o client.Object) { o.(*v1alpha1.Snapshot).Status.ReadyToUse = true },
		},
		"attachment": {
			policy: "distort-agent-attachments", object: attachmentOf("node-a", "node-c", "policy-attachment"),
			change: func(o client.Object) { controllerutil.AddFinalizer(o, v1alpha1.AccessFinalizer) },
			status: func(o client.Object) {
				o.(*v1alpha1.NVMeVolumeAttachment).Status.Revocation = &v1alpha1.RevocationEvidence{
					Observed: "no controller", Source: "configfs", ObservedAt: metav1.Now(), Agent: "node-a",
				}
			},
		},
		"heartbeat": {
			policy: "distort-agent-heartbeat", object: heartbeat("node-a"), agentMakes: true,
			change: func(o client.Object) { annotate(o, "test", "x") },
		},
		"event": {
			policy: "distort-agent-events", object: eventBy("distort-agent", "policy-event"), agentMakes: true,
			change: func(o client.Object) { annotate(o, "test", "x") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.object
			event := c.policy == "distort-agent-events"
			if c.agentMakes {
				denied(t, c.policy, func(ctx context.Context) error { return none.Create(ctx, clone(o), client.DryRunAll) })
				if !event { // which names no node
					denied(t, c.policy, func(ctx context.Context) error { return b.Create(ctx, clone(o), client.DryRunAll) })
				}
				own(t, "create", a.Create(t.Context(), o))
				t.Cleanup(func() { discard(t, o) })
			} else {
				made(t, o)
			}
			changed := clone(o)
			c.change(changed)
			denied(t, c.policy, func(ctx context.Context) error {
				return none.Patch(ctx, clone(changed), client.MergeFrom(o), client.DryRunAll)
			})
			if !event {
				denied(t, c.policy, func(ctx context.Context) error {
					return b.Patch(ctx, clone(changed), client.MergeFrom(o), client.DryRunAll)
				})
			}
			own(t, "patch", a.Patch(t.Context(), changed, client.MergeFrom(o)))
			if c.status == nil {
				return
			}
			before := clone(changed)
			c.status(changed)
			for _, other := range []client.Client{none, b} {
				denied(t, c.policy, func(ctx context.Context) error {
					return other.Status().Patch(ctx, clone(changed), client.MergeFrom(before), client.DryRunAll)
				})
			}
			own(t, "patch status", a.Status().Patch(t.Context(), changed, client.MergeFrom(before)))
		})
	}
}

// TestAgentTakesNothing: an agent cannot make another node's object its own, nor
// give its own away, nor place, resize or abandon a volume.
func TestAgentTakesNothing(t *testing.T) {
	installed(t)
	a := on(t, "agent", "node-a")
	patch := func(o client.Object, change func(client.Object)) func(context.Context) error {
		return func(ctx context.Context) error {
			changed := clone(o)
			change(changed)
			return a.Patch(ctx, changed, client.MergeFrom(o), client.DryRunAll)
		}
	}
	waiting, placed := made(t, partitionOn("", "takes-waiting")), made(t, partitionOn("node-a", "takes-placed"))
	denied(t, "distort-agent-partitions", patch(waiting, func(o client.Object) { place(o.(*v1alpha1.NVMePartition), "node-a") }))
	denied(t, "distort-agent-partitions", patch(placed, func(o client.Object) { o.(*v1alpha1.NVMePartition).Spec.Size *= 2 }))
	denied(t, "distort-agent-partitions", patch(placed, func(o client.Object) { annotate(o, v1alpha1.AbandonDataAnnotation, string(o.GetUID())) }))
	own(t, "an annotation that gives no permission", patch(placed, func(o client.Object) { annotate(o, "test", "x") })(t.Context()))

	volume := made(t, volumeOn("node-a", "takes-volume"))
	denied(t, "distort-agent-volumes", patch(volume, func(o client.Object) { o.(*v1alpha1.Volume).Spec.Capacity *= 2 }))
	denied(t, "distort-agent-volumes", patch(volume, func(o client.Object) { annotate(o, v1alpha1.AbandonDataAnnotation, string(o.GetUID())) }))
	unplaced := made(t, volumeOn("", "takes-unplaced"))
	denied(t, "distort-agent-volumes", patch(unplaced, func(o client.Object) { controllerutil.AddFinalizer(o, v1alpha1.SliceFinalizer) }))

	pools := made(t, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: "rack-1"}})
	report := func(by client.Client, change func(*v1alpha1.StorageNodeStatus)) func(context.Context) error {
		return func(ctx context.Context) error {
			changed := pools.DeepCopyObject().(*v1alpha1.StorageNode)
			change(&changed.Status)
			return by.Status().Patch(ctx, changed, client.MergeFrom(pools), client.DryRunAll)
		}
	}
	seen := func(st *v1alpha1.StorageNodeStatus) { st.ObservedGeneration = 1 }
	own(t, "what it sees of its pools", report(a, seen)(t.Context()))
	denied(t, "distort-agent-pools", report(on(t, "agent", "node-b"), seen))
	denied(t, "distort-agent-pools", report(a, func(st *v1alpha1.StorageNodeStatus) {
		st.Reservations = []v1alpha1.PoolReservation{{PoolGUID: "1", Name: "v", UID: "1", Size: 1}}
	}))

	attachment := made(t, attachmentOf("node-a", "node-c", "takes-attachment"))
	denied(t, "distort-agent-attachments", patch(attachment, func(o client.Object) { annotate(o, v1alpha1.ForceDetachAnnotation, "node-c") }))
	allowed := clone(attachment)
	annotate(allowed, v1alpha1.ForceDetachAnnotation, "node-c")
	own(t, "a person's permission", here.admin.Patch(t.Context(), allowed, client.MergeFrom(attachment)))
	own(t, "a finalizer beside it", patch(allowed, func(o client.Object) { controllerutil.AddFinalizer(o, v1alpha1.AccessFinalizer) })(t.Context()))
	denied(t, "distort-agent-attachments", patch(allowed, func(o client.Object) { o.SetAnnotations(nil) }))

	lease := made(t, heartbeat("node-a"))
	denied(t, "distort-agent-heartbeat", patch(lease, func(o client.Object) { o.(*coordinationv1.Lease).Spec.HolderIdentity = ptr.To("node-b") }))
	denied(t, "distort-agent-heartbeat", func(ctx context.Context) error {
		other := heartbeat("node-a")
		other.Name = "distort-manager"
		return a.Create(ctx, other, client.DryRunAll)
	})
	denied(t, "distort-agent-storage-node", func(ctx context.Context) error {
		other := storageNode("node-a")
		other.Name = "node-x"
		return a.Create(ctx, other, client.DryRunAll)
	})
	aboutNode := eventBy("distort-agent", "takes-event")
	aboutNode.Regarding.APIVersion = "v1"
	for _, e := range []client.Object{aboutNode, eventBy("distort-manager", "takes-event")} {
		denied(t, "distort-agent-events", func(ctx context.Context) error { return a.Create(ctx, clone(e), client.DryRunAll) })
	}
}

// volumeOn is a Volume on a pool of the node, or on none.
func volumeOn(node, name string) *v1alpha1.Volume {
	v := &v1alpha1.Volume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.VolumeSpec{
			Type: v1alpha1.VolumeBlock, Capacity: 4 << 20, Transport: v1alpha1.ProtocolNVMeTCP, Provenance: v1alpha1.ProvenanceDynamic,
			DeletionPolicy: v1alpha1.DeletionDelete, RequestFingerprint: strings.Repeat("a", 64),
		},
	}
	if node != "" {
		v.Spec.OwnerNode, v.Spec.PoolGUID, v.Spec.NetworkDomain = node, "1", "rack-1"
	}
	return v
}

// snapshotOn is a Snapshot of a volume on a pool of the node.
func snapshotOn(node, name string) *v1alpha1.Snapshot {
	return &v1alpha1.Snapshot{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.SnapshotSpec{
			Source:   v1alpha1.VolumeReference{Kind: v1alpha1.KindVolume, Name: "source", UID: uid},
			NodeName: node, RequestFingerprint: strings.Repeat("a", 64),
		},
	}
}

// TestDrivesDoNotMove: the schema keeps nodeName as it is; the policy does so
// without it, in both directions.
func TestDrivesDoNotMove(t *testing.T) {
	installed(t)
	loosen(t, "nvmedevices.storage.distort.io")
	a := on(t, "agent", "node-a")
	for from, to := range map[string]string{"node-a": "node-b", "node-b": "node-a"} {
		d := made(t, device(from, "moves-"+from))
		moved := d.DeepCopy()
		moved.Spec.NodeName = to
		if err := await(t.Context(), "the schema lets a drive move", func(ctx context.Context) error {
			return here.admin.Patch(ctx, moved.DeepCopy(), client.MergeFrom(d), client.DryRunAll)
		}); err != nil {
			t.Fatal(err)
		}
		denied(t, "distort-agent-drives", func(ctx context.Context) error {
			return a.Patch(ctx, moved.DeepCopy(), client.MergeFrom(d), client.DryRunAll)
		})
	}
}

// loosen takes the rules out of a kind's schema until the test ends.
func loosen(t *testing.T, name string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := here.admin.Get(t.Context(), client.ObjectKey{Name: name}, crd); err != nil {
		t.Fatal(err)
	}
	strict := crd.DeepCopy()
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	spec.XValidations = nil
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"] = spec
	if err := here.admin.Patch(t.Context(), crd, client.MergeFrom(strict)); err != nil {
		t.Fatal(err)
	}
	strict.ObjectMeta, strict.Status = crd.ObjectMeta, crd.Status
	t.Cleanup(func() {
		if err := here.admin.Patch(context.WithoutCancel(t.Context()), strict, client.MergeFrom(crd)); err != nil {
			t.Error(err)
		}
	})
}

// TestOthersAreNotHeldToANode: policies bind agents and nodes, not the manager, the
// CSI controller or people.
func TestOthersAreNotHeldToANode(t *testing.T) {
	installed(t)
	d := made(t, device("node-a", "others-drive"))
	claimed := d.DeepCopy()
	claimed.Status.State = v1alpha1.DeviceAvailable
	own(t, "manager writes the status of a drive", on(t, "manager", "node-z").Status().Patch(t.Context(), claimed, client.MergeFrom(d)))
	p := made(t, partitionOn("", "others-pvc"))
	placed := p.DeepCopy()
	place(placed, "node-a")
	own(t, "manager places", on(t, "manager", "node-z").Patch(t.Context(), placed, client.MergeFrom(p)))
	own(t, "CSI controller deletes", on(t, "csi-controller", "node-z").Delete(t.Context(), placed))
	if err := here.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); !apierrors.IsNotFound(err) {
		t.Errorf("the partition is still there: %v", err)
	}
}

func annotate(o client.Object, key, value string) {
	all := map[string]string{key: value}
	for k, v := range o.GetAnnotations() {
		if k != key {
			all[k] = v
		}
	}
	o.SetAnnotations(all)
}

func clone[T client.Object](o T) T { return o.DeepCopyObject().(T) }
