package controller_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func TestCreateIsOnePOSTAndDescribesTheVolume(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	r, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	h.must(err)
	h.wantRequests("POST nvmepartitions")

	p := h.partitions()[0]
	v := r.GetVolume()
	if want := (handle.Handle{Kind: handle.NVMePartition, Namespace: h.namespace, Name: "pvc-1", UID: string(p.UID)}).String(); v.GetVolumeId() != want {
		t.Errorf("volume ID %q, want %q", v.GetVolumeId(), want)
	}
	if v.GetCapacityBytes() != 64<<20 {
		t.Errorf("capacity %d", v.GetCapacityBytes())
	}
	if diff := cmp.Diff(map[string]string{"ctrl-loss-tmo": "600"}, v.GetVolumeContext()); diff != "" {
		t.Errorf("volume context: %s", diff)
	}
	if d := v.GetAccessibleTopology()[0].GetSegments()[topologyKey]; d != "default" {
		t.Errorf("domain %q, want the default", d)
	}
	if diff := cmp.Diff([]string{v1alpha1.SliceFinalizer}, p.Finalizers); diff != "" {
		t.Errorf("finalizers: %s", diff)
	}
}

func TestCreateAgainFindsTheVolumeAndWritesNothing(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	r, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	h.must(err)
	if r.GetVolume().GetVolumeId() != id {
		t.Errorf("another volume: %s, %s", id, r.GetVolume().GetVolumeId())
	}
	h.wantRequests()
}

func TestSimultaneousCreatesMakeOneVolumeCV7(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	var calls sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]bool{}
	for range 16 {
		calls.Go(func() {
			r, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if status.Code(err) != codes.Aborted {
					t.Error(err)
				}
				return
			}
			ids[r.GetVolume().GetVolumeId()] = true
		})
	}
	calls.Wait()
	if len(ids) != 1 {
		t.Errorf("volumes %v, want one", ids)
	}
	h.wantRequests("POST nvmepartitions")
}

// TestManyVolumesAtOnceCostOneWriteEach is the budget of design.md §9 at 32
// callers.
func TestManyVolumesAtOnceCostOneWriteEach(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	const n = 32
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			if _, err := h.CreateVolume(h.within(enough), createRequest("pvc-"+string(rune('a'+i%26))+string(rune('a'+i/26)))); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	var want []string
	for range n {
		want = append(want, "POST nvmepartitions")
	}
	h.wantRequests(want...)
}

// TestChurnLeavesNothingCV5: as often as volumes are made and deleted, nothing
// stays exported and no object stays.
func TestChurnLeavesNothingCV5(t *testing.T) {
	var mu sync.Mutex
	live := map[string]bool{} // by NQN, false when it is over
	export := func(is bool) func(v1alpha1.Slice) error {
		return func(p v1alpha1.Slice) error {
			mu.Lock()
			defer mu.Unlock()
			live[p.GetNQN()] = is
			return nil
		}
	}
	h := newHarness(t, controlplanetest.Behaviour{Exported: export(true), Unexported: export(false)})
	const callers, rounds = 8, 4
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() {
			for range rounds {
				r, err := h.CreateVolume(h.within(enough), createRequest("pvc-"+string(rune('a'+i))))
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.delete(h.within(enough), r.GetVolume().GetVolumeId()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	mu.Lock()
	defer mu.Unlock()
	if len(live) != callers*rounds {
		t.Errorf("%d exports, want %d", len(live), callers*rounds)
	}
	for nqn, is := range live {
		if is {
			t.Errorf("%s is still exported", nqn)
		}
	}
	if left := h.partitions(); len(left) != 0 {
		t.Errorf("left behind: %d", len(left))
	}
}

func TestCreateWithAnotherRequestOfTheNameIsAlreadyExistsCV8(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	h.created("pvc-1")
	for name, change := range map[string]func(*csi.CreateVolumeRequest){
		"size":             func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = 128 << 20 },
		"transport":        func(r *csi.CreateVolumeRequest) { r.Parameters["transport"] = "rdma" },
		"connection":       func(r *csi.CreateVolumeRequest) { r.Parameters["ctrl-loss-tmo"] = "601" },
		"mkfs":             func(r *csi.CreateVolumeRequest) { r.Parameters["mkfs-options"] = "-m 0" },
		"filesystem":       func(r *csi.CreateVolumeRequest) { r.Parameters["csi.storage.k8s.io/fstype"] = "xfs" },
		"access type CV11": sharedBlock,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1", change))
			wantError(t, err, codes.AlreadyExists, "pvc-1")
		})
	}
	h.wantRequests()
}

func TestCreateOutOfTimeLeavesAnObjectThatTheRetryFindsCV1(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldExport: true})
	_, err := h.CreateVolume(h.within(brief), createRequest("pvc-1"))
	wantError(t, err, codes.DeadlineExceeded, "not exported yet", controlplanetest.StorageNode)
	left := h.partitions()
	if len(left) != 1 {
		t.Fatalf("%d objects, want one", len(left))
	}
	// Subscribed, one POST, and one question shortly before the deadline.
	h.wantRequests("POST nvmepartitions", "GET nvmepartitions/NAME")

	h.stub.Become(controlplanetest.Behaviour{})
	r, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	h.must(err)
	if got := h.handleWith(r.GetVolume().GetVolumeId(), func(*handle.Handle) {}); h.handleWith(got, func(x *handle.Handle) { x.UID = string(left[0].UID) }) != got {
		t.Errorf("retry made another volume: %s", got)
	}
	h.wantRequests()
}

func TestNoCandidateIsResourceExhaustedAndLeavesNothingCV10(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{NoCandidate: "0/3 drives: 3 have no room"})
	_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	wantError(t, err, codes.ResourceExhausted, "0/3 drives: 3 have no room")
	if left := h.partitions(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// The caller comes back for another place: same name, other topology.
	h.stub.Become(controlplanetest.Behaviour{})
	_, err = h.CreateVolume(h.within(enough), createRequest("pvc-1", inDomain("default")))
	h.must(err)
}

// TestWithdrawalThatTakesTooLongIsNotFinal: after a final code the caller would
// forget a volume that still exists.
func TestWithdrawalThatTakesTooLongIsNotFinalCV1(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{NoCandidate: "no room", HoldDelete: true})
	_, err := h.CreateVolume(h.within(brief), createRequest("pvc-1"))
	wantError(t, err, codes.Aborted, "no room", "still being withdrawn")
	h.stub.Become(controlplanetest.Behaviour{})
	_, err = h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	h.must(err)
}

func TestAVolumeThatCannotBeCarvedIsWithdrawn(t *testing.T) {
	for reason, code := range map[string]codes.Code{
		v1alpha1.ReasonNoSpace:            codes.ResourceExhausted,
		v1alpha1.ReasonDriveRefused:       codes.FailedPrecondition,
		v1alpha1.ReasonBackendUnsupported: codes.FailedPrecondition,
	} {
		t.Run(reason, func(t *testing.T) {
			h := newHarness(t, controlplanetest.Behaviour{Refuse: reason})
			_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
			wantError(t, err, code, reason, "refused by the test")
			if left := h.partitions(); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestAVolumeThatLostItsDriveIsNotDeletedByARetry: what was once handed out may
// hold data that a person can still save.
func TestAVolumeThatLostItsDriveIsNotDeletedByARetry(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	h.created("pvc-1")
	h.stub.Become(controlplanetest.Behaviour{Refuse: v1alpha1.ReasonDataLoss})
	h.cacheShows("pvc-1", func(p *v1alpha1.NVMePartition) bool {
		return !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported)
	})
	_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	wantError(t, err, codes.Unavailable, v1alpha1.ReasonDataLoss)
	if n := len(h.partitions()); n != 1 || h.partitions()[0].DeletionTimestamp != nil {
		t.Errorf("the volume is gone, or going: %d", n)
	}
}

func TestARetryableRefusalIsWaitedFor(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{Refuse: v1alpha1.ReasonCarveFailed})
	_, err := h.CreateVolume(h.within(brief), createRequest("pvc-1"))
	wantError(t, err, codes.DeadlineExceeded, v1alpha1.ReasonCarveFailed)
	if len(h.partitions()) != 1 {
		t.Error("the object is gone")
	}
}

func TestInvalidRequestsAskNothingOfTheAPIServerCV10(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	for name, c := range map[string]struct {
		change func(*csi.CreateVolumeRequest)
		code   codes.Code
	}{
		"unknown parameter": {func(r *csi.CreateVolumeRequest) { r.Parameters["transprot"] = "tcp" }, codes.InvalidArgument},
		"no room between": {func(r *csi.CreateVolumeRequest) {
			r.CapacityRange = &csi.CapacityRange{RequiredBytes: 5 << 20, LimitBytes: 6 << 20}
		}, codes.OutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1", c.change))
			wantError(t, err, c.code)
		})
	}
	h.wantRequests()
}

func TestDomainIsThatOfTheStorageNode(t *testing.T) {
	const node, domain = "storage-in-rack-7", "rack-7"
	s := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: domain}}
	if err := server.Client().Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, controlplanetest.Behaviour{StorageNode: node})
	r, err := h.CreateVolume(h.within(enough), createRequest("pvc-1", inDomain(domain)))
	h.must(err)
	if d := r.GetVolume().GetAccessibleTopology()[0].GetSegments()[topologyKey]; d != domain {
		t.Errorf("domain %q, want %q", d, domain)
	}
	_, err = h.CreateVolume(h.within(enough), createRequest("pvc-1", inDomain("rack-8")))
	wantError(t, err, codes.AlreadyExists, domain, "rack-8")
}

func inDomain(domain string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) {
		r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{topologyKey: domain}}}}
	}
}

// unreachable is an API server that does not answer a write.
type unreachable struct{ client.Client }

var errUnreachable = errors.New("connection reset by peer")

func (unreachable) Create(context.Context, client.Object, ...client.CreateOption) error {
	return errUnreachable
}

func TestAWriteWithoutAnswerIsNotFinal(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{}, func(o *controller.Options) { o.Client = unreachable{o.Client} })
	_, err := h.CreateVolume(h.within(enough), createRequest("pvc-1"))
	wantError(t, err, codes.Unavailable, "connection reset")
}

// blind is a cache that has not heard of any object yet.
type blind struct{ client.Client }

func (b blind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *v1alpha1.NVMePartition, *v1alpha1.NVMeVolumeAttachment:
		return notFound(key)
	}
	return b.Client.Get(ctx, key, o, opts...)
}

func (blind) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func TestACacheThatIsBehindDoesNotMakeASecondVolume(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{}, func(o *controller.Options) { o.Client = blind{o.Client} })
	for range 2 {
		_, err := h.CreateVolume(h.within(4*brief), createRequest("pvc-1"))
		h.must(err)
	}
	if n := len(h.partitions()); n != 1 {
		t.Errorf("%d volumes", n)
	}
}
