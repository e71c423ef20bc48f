package controlplanetest

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Storage is a storage node with one drive and its claim, or with one pool, as agent,
// manager and administrator describe it: ready, claimed, reached over TCP.
type Storage struct {
	Node   *v1alpha1.RDMAStorageNode
	Owner  *v1alpha1.StorageNode
	Device *v1alpha1.NVMeDevice
	Claim  *v1alpha1.NVMeDeviceClaim
}

// NewStorage describes a node of this name in a network domain, whose drive has
// so many bytes free.
func NewStorage(node, domain, serial string, free int64) *Storage {
	s := newNode(node, domain)
	s.Device = &v1alpha1.NVMeDevice{
		ObjectMeta: metav1.ObjectMeta{Name: identity.DeviceName(node, serial)},
		Spec:       v1alpha1.NVMeDeviceSpec{NodeName: node, SerialNumber: serial, PCIAddress: "0000:01:00.0", TotalCapacity: 1 << 40},
		Status:     v1alpha1.NVMeDeviceStatus{State: v1alpha1.DeviceClaimed, FreeCapacity: &free},
	}
	s.Claim = &v1alpha1.NVMeDeviceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node},
		Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: serial},
		Status:     v1alpha1.NVMeDeviceClaimStatus{Active: true, MatchedDevice: identity.DeviceName(node, serial), NodeName: node},
	}
	for _, kind := range []string{v1alpha1.ConditionHardwareAvailable, v1alpha1.ConditionMediaUsable} {
		setCondition(s.Device, &s.Device.Status.Conditions, kind, true, "ByTheTest", "")
	}
	return s
}

// NewPool describes a node of this name in a network domain, whose only pool has so
// many bytes free.
func NewPool(node, domain, guid string, free int64) *Storage {
	s := newNode(node, domain)
	s.Owner.Spec.AuthoritativePoolGUIDs = []v1alpha1.PoolGUID{v1alpha1.PoolGUID(guid)}
	s.Owner.Status.Pools = []v1alpha1.PoolStatus{{GUID: v1alpha1.PoolGUID(guid), Name: "tank", FreeBytes: free, SampleGeneration: 1, Ready: true}}
	setCondition(s.Owner, &s.Owner.Status.Conditions, v1alpha1.ConditionReady, true, v1alpha1.ReasonObservationSucceeded, "")
	s.Owner.Status.Conditions[0].ObservedGeneration = 1 // the one that it will have
	return s
}

// newNode describes a node without drives and pools.
func newNode(node, domain string) *Storage {
	s := &Storage{
		Node: &v1alpha1.RDMAStorageNode{
			ObjectMeta: metav1.ObjectMeta{Name: node},
			Spec: v1alpha1.RDMAStorageNodeSpec{NodeName: node, Portals: []v1alpha1.NodePortal{{
				Portal: v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}, Fabric: v1alpha1.FabricTCP,
			}}},
		},
		Owner: &v1alpha1.StorageNode{
			ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: v1alpha1.DomainName(domain)},
		},
	}
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionNVMeInventoryReady} {
		setCondition(s.Node, &s.Node.Status.Conditions, kind, true, "ByTheTest", "")
	}
	return s
}

// Provide makes the objects, those that are not nil, until the test ends. The
// drive is owned by the claim unless its claimRef says otherwise.
func (s *Server) Provide(t testing.TB, storage *Storage) {
	t.Helper()
	if c := storage.Claim; c != nil {
		s.make(t, c)
		if storage.Device.Status.ClaimRef == nil {
			storage.Device.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
		}
	}
	if storage.Node != nil {
		s.make(t, storage.Node)
	}
	if storage.Owner != nil {
		s.make(t, storage.Owner)
	}
	if storage.Device != nil {
		s.make(t, storage.Device)
	}
}

// make makes an object with its status, which the API server takes only by a
// second call.
func (s *Server) make(t testing.TB, o client.Object) {
	t.Helper()
	full, ok := o.DeepCopyObject().(client.Object)
	if !ok {
		t.Fatalf("%T is no object", o)
	}
	if err := s.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.client.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	full.SetResourceVersion(o.GetResourceVersion())
	full.SetUID(o.GetUID())
	if err := s.client.Status().Update(t.Context(), full); err != nil {
		t.Fatal(err)
	}
}
