package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const unit = int64(4) << 20

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// device is a blank drive as distort-agent reports it.
func device(name, node, serial string, units int64) *v1alpha1.NVMeDevice {
	return &v1alpha1.NVMeDevice{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NVMeDevice"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.NVMeDeviceSpec{NodeName: node, SerialNumber: serial, PCIAddress: "0000:3b:00.0", TotalCapacity: units * unit},
		Status: v1alpha1.NVMeDeviceStatus{Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionTrue, v1alpha1.ReasonDiscovered, ""),
			condition(v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonBlank, ""),
		}},
	}
}

func claim(name, serial string) *v1alpha1.NVMeDeviceClaim {
	return &v1alpha1.NVMeDeviceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: serial},
	}
}

// storageNode is a node that is ready for TCP.
func storageNode(name string) *v1alpha1.RDMAStorageNode {
	return &v1alpha1.RDMAStorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.RDMAStorageNodeSpec{NodeName: name, Portals: []v1alpha1.NodePortal{{
			Portal: v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}, Fabric: v1alpha1.FabricTCP,
		}}},
		Status: v1alpha1.RDMAStorageNodeStatus{Conditions: []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, ""),
			condition(v1alpha1.ConditionNVMeInventoryReady, metav1.ConditionTrue, v1alpha1.ReasonScanComplete, ""),
		}},
	}
}

func lease(node string, renewed time.Time) *coordinationv1.Lease {
	micro := metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.LeaseNamePrefix + node},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &micro},
	}
}

func partition(name string, units int64) *v1alpha1.NVMePartition {
	return &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{v1alpha1.SliceFinalizer}},
		Spec: v1alpha1.NVMePartitionSpec{
			Size: units * unit, TargetBackend: v1alpha1.BackendKernel, Transport: v1alpha1.TransportTCP,
			AccessMode: v1alpha1.ReadWriteOnce, AccessType: v1alpha1.AccessBlock, RequestFingerprint: strings.Repeat("a", 64),
		},
	}
}

// readyDrive makes a live node with one claimed drive and waits until it is
// bound. Node, drive, serial number and claim have the same name.
func readyDrive(t *testing.T, name string, units int64) *v1alpha1.NVMeDeviceClaim {
	t.Helper()
	c := claim(name, name)
	create(t, lease(name, time.Now()), storageNode(name), device(name, name, name, units), c)
	eventually(t, "bind "+name, bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound, name))
	return c
}

// bound checks the claim's condition and that its message says something.
func bound(c *v1alpha1.NVMeDeviceClaim, status metav1.ConditionStatus, reason string, says ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		return conditionIs(c.Status.Conditions, v1alpha1.ConditionBound, status, reason, says...)
	}
}

func conditionIs(all []metav1.Condition, kind string, status metav1.ConditionStatus, reason string, says ...string) error {
	got := meta.FindStatusCondition(all, kind)
	if got == nil {
		return fmt.Errorf("no condition %s", kind)
	}
	for _, text := range says {
		if !strings.Contains(got.Message, text) {
			return fmt.Errorf("message %q does not say %q", got.Message, text)
		}
	}
	if got.Status != status || got.Reason != reason {
		return fmt.Errorf("condition %s=%s/%s %q, want %s/%s", kind, got.Status, got.Reason, got.Message, status, reason)
	}
	return nil
}

func placedOn(p *v1alpha1.NVMePartition, node string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Spec.NodeName != node {
			return fmt.Errorf("partition %s is on node %q, want %q; conditions %+v", p.Name, p.Spec.NodeName, node, p.Status.Conditions)
		}
		return nil
	}
}

func notPlaced(p *v1alpha1.NVMePartition, says string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		return conditionIs(p.Status.Conditions, v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoCandidate, says)
	}
}

// told checks that an event with this reason regards the object.
func told(object client.Object, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		var events eventsv1.EventList
		if err := server.client.List(ctx, &events); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Regarding.UID == object.GetUID() && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("no event %s about %s among %d", reason, object.GetName(), len(events.Items))
	}
}
