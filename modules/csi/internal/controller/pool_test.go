package controller_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

// newPoolHarness is newHarness with a stub that plays Volumes. They are the
// cluster's, so these tests run one by one, before those that run beside others.
func newPoolHarness(t *testing.T, b controlplanetest.Behaviour) *harness {
	t.Helper()
	b.Pools = true
	h := newSerialHarness(t, b)
	t.Cleanup(func() {
		b.HoldExport, b.HoldDelete, b.Refuse, b.NoCandidate = false, false, "", ""
		h.stub.Become(b)
		h.clear()
	})
	return h
}

func pool(r *csi.CreateVolumeRequest) {
	r.Parameters["target-backend"] = "zfs"
}

// volumes lists the Volumes in the API server.
func (h *harness) volumes() []v1alpha1.Volume {
	h.t.Helper()
	var list v1alpha1.VolumeList
	h.must(server.Client().List(h.within(enough), &list))
	return list.Items
}

// clear deletes the Snapshots and Volumes, and waits until they are gone.
func (h *harness) clear() {
	h.t.Helper()
	var snapshots v1alpha1.SnapshotList
	h.must(server.Client().List(h.within(enough), &snapshots))
	for _, s := range snapshots.Items {
		h.must(h.deleteSnapshot(handle.Handle{Kind: handle.Snapshot, Name: s.Name, UID: string(s.UID)}.String()))
	}
	for _, v := range h.volumes() {
		id := handle.Handle{Kind: handle.Volume, Name: v.Name, UID: string(v.UID)}.String()
		h.must(h.unpublish(h.within(enough), id, ""))
		h.must(h.delete(h.within(enough), id))
	}
}

// TestALifeOnAPoolCostsWhatOneOnADriveDoes: each call is one write, of the pool's
// own kind, and what it tells is where the zvol is.
func TestALifeOnAPoolCostsWhatOneOnADriveDoes(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	r, err := h.CreateVolume(h.within(enough), createRequest("pvc-1", pool))
	h.must(err)
	h.wantRequests("POST volumes")
	id := r.GetVolume().GetVolumeId()
	v := h.volumes()[0]
	uid := string(v.UID)
	if want := (handle.Handle{Kind: handle.Volume, Name: "pvc-1", UID: uid}).String(); id != want {
		t.Errorf("volume ID %q, want %q", id, want)
	}
	if v.Spec.FSType != v1alpha1.Ext4 || len(h.partitions()) != 0 {
		t.Errorf("made %+v and %d partitions", v.Spec, len(h.partitions()))
	}

	again, err := h.CreateVolume(h.within(enough), createRequest("pvc-1", pool))
	h.must(err)
	if again.GetVolume().GetVolumeId() != id {
		t.Errorf("another volume: %v", again)
	}
	h.wantRequests()

	encoded, err := h.publish(h.within(enough), id, nodeA, mountCapability())
	h.must(err)
	h.wantRequests("POST nvmevolumeattachments")
	published, err := publishcontext.Decode(encoded)
	h.must(err)
	want := initiator.Identity{
		NQN: identity.VolumeNQN(identity.ExternalID(uid)), NSID: identity.NSID, UUID: identity.NamespaceUUID(uid), NGUID: identity.NamespaceNGUID(uid),
	}
	if published.Namespace != want || len(published.Portals) != 1 || !published.Zeroed {
		t.Errorf("published %+v, want %+v", published, want)
	}
	var a v1alpha1.NVMeVolumeAttachment
	h.must(server.Client().Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: identity.AttachmentName(uid)}, &a))
	if a.Spec.VolumeRef != v.GetReference() || a.Spec.TargetNode != controlplanetest.StorageNode {
		t.Errorf("attachment %+v", a.Spec)
	}
	_, err = h.publish(h.within(enough), id, nodeB, mountCapability())
	wantError(t, err, codes.FailedPrecondition, nodeA)
	wantError(t, h.delete(h.within(enough), id), codes.FailedPrecondition, nodeA)
	h.requests.Take()

	h.wantExpanded(id, large, large)
	h.wantRequests("PATCH volumes/NAME")

	h.must(h.unpublish(h.within(enough), id, nodeA))
	h.wantRequests("DELETE nvmevolumeattachments/NAME")
	h.must(h.delete(h.within(enough), id))
	h.wantRequests("DELETE volumes/NAME")
	if n := len(h.volumes()); n != 0 {
		t.Errorf("%d volumes are left", n)
	}
}

// TestANameBelongsToOneVolumeOfAnyKindCV8: a StorageClass that is replaced by one of
// another backend does not make a second volume of the name.
func TestANameBelongsToOneVolumeOfAnyKindCV8(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	h.created("pvc-1", pool)
	_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	wantError(t, err, codes.AlreadyExists, "Volume pvc-1")
	_, err = h.CreateVolume(h.within(enough), createRequest("pvc-1", pool, func(r *csi.CreateVolumeRequest) { r.Parameters["compression"] = "off" }))
	wantError(t, err, codes.AlreadyExists, "other parameters")
	id := h.created("pvc-2")
	_, err = h.CreateVolume(h.within(enough), createRequest("pvc-2", pool))
	wantError(t, err, codes.AlreadyExists, "NVMePartition pvc-2")
	h.must(h.delete(h.within(enough), id))
}

func TestListVolumesHasThoseOfDrivesAndPools(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	want := map[string]bool{h.created("pvc-1", pool): true, h.created("pvc-2"): true, h.created("pvc-3", pool): true}
	got, token := map[string]bool{}, ""
	for {
		r, err := h.ListVolumes(h.within(enough), &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: token})
		h.must(err)
		for _, e := range r.GetEntries() {
			got[e.GetVolume().GetVolumeId()] = true
			one, err := h.ControllerGetVolume(h.within(enough), &csi.ControllerGetVolumeRequest{VolumeId: e.GetVolume().GetVolumeId()})
			h.must(err)
			if one.GetVolume().String() != e.GetVolume().String() {
				t.Errorf("listed %v, got %v", e, one)
			}
		}
		if token = r.GetNextToken(); token == "" {
			break
		}
	}
	for id := range want {
		if !got[id] {
			t.Errorf("%s is not listed", id)
		}
	}
	if len(got) != len(want) {
		t.Errorf("listed %v", got)
	}
}

func TestAVolumeThatNoPoolTakesIsWithdrawn(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour controlplanetest.Behaviour
		code      codes.Code
		says      string
	}{
		"no pool":           {controlplanetest.Behaviour{NoCandidate: "0/2 pools: 2 NoSpace"}, codes.ResourceExhausted, "0/2 pools"},
		"no space":          {controlplanetest.Behaviour{Refuse: v1alpha1.ReasonNoSpace}, codes.ResourceExhausted, v1alpha1.ReasonNoSpace},
		"a foreign dataset": {controlplanetest.Behaviour{Refuse: v1alpha1.ReasonDatasetRefused}, codes.FailedPrecondition, v1alpha1.ReasonDatasetRefused},
	} {
		t.Run(name, func(t *testing.T) {
			h := newPoolHarness(t, c.behaviour)
			_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1", pool))
			wantError(t, err, c.code, c.says)
			if n := len(h.volumes()); n != 0 {
				t.Errorf("%d volumes are left", n)
			}
		})
	}
	h := newPoolHarness(t, controlplanetest.Behaviour{Refuse: v1alpha1.ReasonPoolUnavailable})
	_, err := h.CreateVolume(h.within(brief), createRequest("pvc-1", pool))
	wantError(t, err, codes.DeadlineExceeded, v1alpha1.ReasonPoolUnavailable)
}

func TestAGrowthThatThePoolHasNoRoomForIsRefusedBeforeAnythingChanges(t *testing.T) {
	storage := controlplanetest.NewPool("grow-full", "default", controlplanetest.PoolGUID, 32*mib)
	server.Provide(t, storage)
	h := newPoolHarness(t, controlplanetest.Behaviour{StorageNode: storage.Owner.Name})
	id := h.created("pvc-1", pool)
	_, err := h.expand(h.within(enough), id, large, 0, nil)
	wantError(t, err, codes.ResourceExhausted, "pool "+controlplanetest.PoolGUID, "grow-full")
	h.wantRequests()
	if v := h.volumes()[0]; v.Spec.Capacity != small {
		t.Errorf("capacity %d", v.Spec.Capacity)
	}
}

func TestARefusedGrowthOfAPoolIsWithdrawn(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{MaxSize: small, GrowthReason: v1alpha1.ReasonGrowthNoSpace})
	id := h.created("pvc-1", pool)
	_, err := h.expand(h.within(enough), id, large, 0, nil)
	wantError(t, err, codes.ResourceExhausted, "can be had")
	if v := h.volumes()[0]; v.Spec.Capacity != small || v.Status.ActualCapacity != small {
		t.Errorf("capacity %d, actual %d", v.Spec.Capacity, v.Status.ActualCapacity)
	}
}

func TestAVolumeOfAPoolIsValidatedAndRefusedWhatItCannotDo(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", pool)
	validate := func(c *csi.VolumeCapability, parameters map[string]string) *csi.ValidateVolumeCapabilitiesResponse {
		r, err := h.ValidateVolumeCapabilities(h.within(enough), &csi.ValidateVolumeCapabilitiesRequest{
			VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{c}, Parameters: parameters,
		})
		h.must(err)
		return r
	}
	if r := validate(mountCapability(), map[string]string{"target-backend": "zfs", "compression": "lz4"}); r.GetConfirmed() == nil {
		t.Errorf("got %v", r)
	}
	if r := validate(sharedBlockCapability(), nil); r.GetConfirmed() != nil || r.GetMessage() == "" {
		t.Errorf("got %v", r)
	}
}

// TestGetCapacityCountsThePoolsThatPlacementWouldTakePL2 has one pool and one thing
// that is wrong with it, for each reason that placement has.
func TestGetCapacityCountsThePoolsThatPlacementWouldTakePL2(t *testing.T) {
	const free = int64(1) << 30
	// largest is the largest volume that such a space holds.
	largest := func(space int64) int64 {
		taken, err := capacity.Zvol(space, 0)
		if err != nil {
			t.Fatal(err)
		}
		return (space - (taken - space)) / capacity.Unit * capacity.Unit
	}
	whole := largest(free)
	no := false
	type storage = controlplanetest.Storage
	ready := func(s *storage) []v1alpha1.PoolStatus { return s.Owner.Status.Pools }
	reserve := func(guid v1alpha1.PoolGUID, size int64) func(*storage) {
		return func(s *storage) {
			s.Owner.Status.Reservations = []v1alpha1.PoolReservation{{PoolGUID: guid, Name: "pvc-9", UID: otherUID, Size: size}}
		}
	}
	cases := map[string]struct {
		change func(*storage)
		want   int64
	}{
		"well":                    {func(*storage) {}, whole},
		"reserved in part":        {reserve("", 512*mib), largest(free - 512*mib)},
		"reserved as a whole":     {reserve("", free), 0},
		"reserved over and over":  {reserve("", 4*free), 0},
		"another pool's":          {reserve("77", free), whole},
		"pool not ready":          {func(s *storage) { ready(s)[0].Ready = false }, 0},
		"pool no longer declared": {func(s *storage) { ready(s)[0].GUID = "78" }, 0},
		"node cordoned":           {func(s *storage) { s.Owner.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "true"} }, 0},
		"node disabled":           {func(s *storage) { s.Owner.Spec.Enabled = &no }, 0},
		"node unknown":            {func(s *storage) { s.Node = nil }, 0},
		"node silent": {func(s *storage) {
			untrue(&s.Node.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonHeartbeatExpired)
		}, 0},
		"drives not looked at": {func(s *storage) {
			untrue(&s.Node.Status.Conditions, v1alpha1.ConditionNVMeInventoryReady, v1alpha1.ReasonScanDegraded)
		}, whole},
		"other pools than declared": {func(s *storage) {
			untrue(&s.Owner.Status.Conditions, v1alpha1.ConditionReady, v1alpha1.ReasonPoolIdentityMismatch)
		}, 0},
		"seen before the declaration": {func(s *storage) { s.Owner.Status.Conditions[0].ObservedGeneration = 0 }, 0},
		"without a portal":            {func(s *storage) { s.Node.Spec.Portals[0].Transport = v1alpha1.TransportRDMA }, 0},
	}
	domains := map[string]string{}
	for name, c := range cases {
		n := len(domains)
		domain := "pool-room-" + string(rune('a'+n))
		domains[name] = domain
		guid := "10" + string(rune('0'+n/10)) + string(rune('0'+n%10))
		s := controlplanetest.NewPool(domain, domain, guid, free)
		c.change(s)
		for i := range s.Owner.Status.Reservations {
			if r := &s.Owner.Status.Reservations[i]; r.PoolGUID == "" {
				r.PoolGUID = v1alpha1.PoolGUID(guid)
			}
		}
		server.Provide(t, s)
	}
	for _, domain := range []string{"pool-room-dup-1", "pool-room-dup-2"} {
		server.Provide(t, controlplanetest.NewPool(domain, domain, "1999", free))
	}
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	want := func(name, domain string, room int64) {
		t.Helper()
		r, err := h.GetCapacity(h.within(enough), capacityIn(domain, func(r *csi.GetCapacityRequest) { r.Parameters["target-backend"] = "zfs" }))
		h.must(err)
		if r.GetAvailableCapacity() != room || r.GetMaximumVolumeSize().GetValue() != room {
			t.Errorf("%s: %d bytes and at most %v, want %d", name, r.GetAvailableCapacity(), r.GetMaximumVolumeSize(), room)
		}
	}
	for name, c := range cases {
		want(name, domains[name], c.want)
	}
	want("a pool that two nodes declare", "pool-room-dup-1", 0)
	r, err := h.GetCapacity(h.within(enough), capacityIn(domains["well"]))
	h.must(err)
	if r.GetAvailableCapacity() != 0 {
		t.Errorf("%d bytes on drives of a node that has pools alone", r.GetAvailableCapacity())
	}
	h.wantRequests()
}
