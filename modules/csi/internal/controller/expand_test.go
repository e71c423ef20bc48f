package controller_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

const (
	mib = int64(1) << 20
	// small is what createRequest asks for, large what the tests grow it to.
	small, large = 64 * mib, 128 * mib
)

func (h *harness) expand(ctx context.Context, id string, required, limit int64, c *csi.VolumeCapability) (*csi.ControllerExpandVolumeResponse, error) {
	return h.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: required, LimitBytes: limit}, VolumeCapability: c,
	})
}

// wantExpanded checks that a growth succeeds with this size.
func (h *harness) wantExpanded(id string, required, size int64) {
	h.t.Helper()
	r, err := h.expand(h.within(enough), id, required, 0, nil)
	h.must(err)
	if r.GetCapacityBytes() != size {
		h.t.Errorf("%d bytes, want %d", r.GetCapacityBytes(), size)
	}
}

// wantSize checks what spec and status say in the API server.
func (h *harness) wantSize(spec, allocated int64) {
	h.t.Helper()
	p := h.partitions()[0]
	if p.Spec.Size != spec || p.Status.AllocatedCapacity != allocated {
		h.t.Errorf("spec.size %d and allocatedCapacity %d, want %d and %d", p.Spec.Size, p.Status.AllocatedCapacity, spec, allocated)
	}
}

const patched = "PATCH nvmepartitions/NAME"

func TestExpandIsOnePATCHAndReturnsWhatWasReadBack(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	r, err := h.expand(h.within(enough), id, large, 0, mountCapability())
	h.must(err)
	if r.GetCapacityBytes() != large || !r.GetNodeExpansionRequired() {
		t.Errorf("got %v, want %d bytes and a filesystem to grow", r, large)
	}
	h.wantRequests(patched)
	h.wantSize(large, large)

	h.wantExpanded(id, large, large)
	h.wantExpanded(id, small, large)
	h.wantRequests()
}

// TestARawVolumeNeedsItsNodeOnlyWhileItIsThere: what connects later sees the
// new size; what is connected may have missed it (EX1).
func TestARawVolumeNeedsItsNodeOnlyWhileItIsThereEX1(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", sharedBlock)
	for i, node := range []string{"", nodeA} {
		size := large + int64(i)*4*mib
		if node != "" {
			h.published(id, node, sharedBlockCapability())
		}
		r, err := h.expand(h.within(enough), id, size, 0, sharedBlockCapability())
		h.must(err)
		if r.GetNodeExpansionRequired() != (node != "") {
			t.Errorf("on node %q: node expansion required: %t", node, r.GetNodeExpansionRequired())
		}
	}
}

// TestExpandRoundsUpAndComparesWhatThereIsEX8: equal numbers are enough, and a
// rounded size is within its limit or refused at once.
func TestExpandRoundsUpAndComparesWhatThereIsEX8(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	for name, c := range map[string]struct {
		required, limit int64
		code            codes.Code
	}{
		"nothing":                  {0, 0, codes.InvalidArgument},
		"negative":                 {-1, 0, codes.InvalidArgument},
		"above its limit":          {large, large - 1, codes.InvalidArgument},
		"no multiple in the range": {small + 1, small + 2, codes.OutOfRange},
		"below what there is":      {1, small - 4*mib, codes.OutOfRange},
		"exactly what there is":    {small, small, codes.OK},
		"a byte less":              {small - 1, small, codes.OK},
		"a limit alone":            {0, small, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := h.expand(h.within(enough), id, c.required, c.limit, nil)
			wantError(t, err, c.code)
			if c.code == codes.OK && r.GetCapacityBytes() != small {
				t.Errorf("%d bytes, want %d", r.GetCapacityBytes(), small)
			}
		})
	}
	h.wantRequests()
	h.wantExpanded(id, small+1, small+4*mib)
}

func TestExpandOfWhatIsNotThereOrNotLikeThat(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	_, err := h.expand(h.within(enough), h.handleWith(id, otherLife), large, 0, nil)
	wantError(t, err, codes.NotFound)
	_, err = h.expand(h.within(enough), "", large, 0, nil)
	wantError(t, err, codes.InvalidArgument, "volume_id")
	_, err = h.expand(h.within(enough), id, large, 0, sharedBlockCapability())
	wantError(t, err, codes.InvalidArgument, "made for mount")
	h.wantSize(small, small)
}

// TestAGrowthThatTheDriveHasNoRoomForIsRefusedBeforeAnythingChanges goes by what
// distort-manager says is free.
func TestAGrowthThatTheDriveHasNoRoomForIsRefusedBeforeAnythingChanges(t *testing.T) {
	const node = "storage-nearly-full"
	server.Provide(t, controlplanetest.NewStorage(node, "rack-expand", controlplanetest.SerialOn(node), 32*mib))
	h := newHarness(t, controlplanetest.Behaviour{StorageNode: node})
	id := h.created("pvc-1")
	_, err := h.expand(h.within(enough), id, large, 0, nil)
	wantError(t, err, codes.ResourceExhausted, "67108864 bytes more", controlplanetest.SerialOn(node), node, "33554432 free")
	h.wantRequests()
	h.wantSize(small, small)
	h.wantExpanded(id, small+32*mib, small+32*mib)
}

func TestARefusedGrowthIsWithdrawn(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{MaxSize: small, GrowthReason: v1alpha1.ReasonGrowthNoSpace})
	id := h.created("pvc-1")
	for range 2 {
		_, err := h.expand(h.within(enough), id, large, 0, nil)
		wantError(t, err, codes.ResourceExhausted, "134217728 bytes are wanted, 67108864 can be had")
		h.wantRequests(patched, patched)
		h.wantSize(small, small)
		h.cacheShows("pvc-1", func(p *v1alpha1.NVMePartition) bool { return p.Spec.Size == small && observed(p) })
		h.requests.Take()
	}
	h.stub.Become(controlplanetest.Behaviour{})
	h.wantExpanded(id, large, large)
}

// observed tells that the stub has had its last word on the spec: it will not
// write between a call's read and its write.
func observed(p *v1alpha1.NVMePartition) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExported)
	return c != nil && c.ObservedGeneration == p.Generation
}

// TestExpandContinuesWhereAnEarlierCallWasKilled goes through every state that
// a crash leaves.
func TestExpandContinuesWhereAnEarlierCallWasKilled(t *testing.T) {
	silent := controlplanetest.Behaviour{MaxSize: small}
	refuses := controlplanetest.Behaviour{MaxSize: small, GrowthReason: v1alpha1.ReasonGrowthNoSpace}
	allows := controlplanetest.Behaviour{MaxSize: small + 4*mib}
	refused := func(p *v1alpha1.NVMePartition) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionResized)
		return c != nil && c.ObservedGeneration == p.Generation
	}
	for name, c := range map[string]struct {
		// at the crash, and from the retry on
		before, after controlplanetest.Behaviour
		asked         func(*v1alpha1.NVMePartition) bool
		required      int64
		code          codes.Code
		size          int64
		requests      []string
	}{
		"asked for": {
			silent, controlplanetest.Behaviour{}, nil,
			large, codes.OK, large, nil,
		},
		"done": {
			controlplanetest.Behaviour{}, controlplanetest.Behaviour{},
			func(p *v1alpha1.NVMePartition) bool { return p.Status.AllocatedCapacity == large },
			large, codes.OK, large, nil,
		},
		"refused and not withdrawn": {
			refuses, refuses, refused,
			large, codes.ResourceExhausted, small, []string{patched},
		},
		"refused and given up for a smaller size": {
			refuses, allows, refused,
			small + 4*mib, codes.OK, small + 4*mib, []string{patched},
		},
		"refused and given up": {
			refuses, refuses, refused,
			small, codes.OK, small, []string{patched},
		},
		"given up for a smaller size": {
			silent, allows, nil,
			small + 4*mib, codes.OK, small + 4*mib, []string{patched},
		},
		"given up": {
			silent, silent, nil,
			small, codes.OK, small, []string{patched},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, c.before)
			id := h.created("pvc-1")
			p := h.partitions()[0]
			asked := p.DeepCopy()
			asked.Spec.Size = large
			h.must(server.Client().Patch(t.Context(), asked, client.MergeFrom(&p)))
			h.cacheShows("pvc-1", func(p *v1alpha1.NVMePartition) bool {
				return p.Spec.Size == large && observed(p) && (c.asked == nil || c.asked(p))
			})
			h.stub.Become(c.after)
			r, err := h.expand(h.within(enough), id, c.required, 0, nil)
			wantError(t, err, c.code)
			if c.code == codes.OK && r.GetCapacityBytes() != c.size {
				t.Errorf("%d bytes, want %d", r.GetCapacityBytes(), c.size)
			}
			h.wantRequests(c.requests...)
			h.wantSize(c.size, c.size)
		})
	}
}

// TestExpandOutOfTimeSaysWhatItWaitsForAndTheRetryFindsIt: a failure that may
// pass is waited for and not withdrawn.
func TestExpandOutOfTimeSaysWhatItWaitsForAndTheRetryFindsIt(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour controlplanetest.Behaviour
		says      string
	}{
		"no answer": {controlplanetest.Behaviour{MaxSize: small}, "67108864 of 134217728 bytes so far (distort-agent on storage-1)"},
		"retryable": {controlplanetest.Behaviour{MaxSize: small, GrowthReason: v1alpha1.ReasonResizeFailed}, v1alpha1.ReasonResizeFailed},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, c.behaviour)
			id := h.created("pvc-1")
			_, err := h.expand(h.within(brief), id, large, 0, nil)
			wantError(t, err, codes.DeadlineExceeded, c.says)
			if asked := h.requests.Take(); len(asked) == 0 || asked[0] != patched || slices.Contains(asked[1:], patched) {
				t.Errorf("requests %v, want one %s, and no other write", asked, patched)
			}
			h.wantSize(large, small)
			h.stub.Become(controlplanetest.Behaviour{})
			h.wantExpanded(id, large, large)
			h.wantRequests()
		})
	}
}

// past is a cache that shows, once told so, volumes as they were made.
type past struct {
	client.Client
	behind *atomic.Bool
}

func (c past) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	if p, ok := o.(*v1alpha1.NVMePartition); ok && c.behind.Load() {
		p.ResourceVersion, p.Generation, p.Spec.Size, p.Status.AllocatedCapacity = "1", 1, small, small
	}
	return err
}

// TestExpandFromACacheThatIsBehindChangesNothing: what it writes is tied to what
// it read.
func TestExpandFromACacheThatIsBehindChangesNothing(t *testing.T) {
	var behind atomic.Bool
	h := newHarness(t, controlplanetest.Behaviour{}, func(o *controller.Options) { o.Client = past{o.Client, &behind} })
	id := h.created("pvc-1")
	h.wantExpanded(id, 2*large, 2*large)
	h.requests.Take()
	behind.Store(true)
	h.wantExpanded(id, large, 2*large)
	h.wantRequests(patched, "GET nvmepartitions/NAME")
	h.wantSize(2*large, 2*large)
}

func TestExpandIsRefusedWhileTheVolumeCannotGrow(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour controlplanetest.Behaviour
		wait      func(*v1alpha1.NVMePartition) bool
		prepare   func(h *harness, id string)
		says      string
	}{
		"its drive is lost": {
			controlplanetest.Behaviour{Refuse: v1alpha1.ReasonDataLoss},
			func(p *v1alpha1.NVMePartition) bool {
				return !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported)
			}, func(*harness, string) {}, v1alpha1.ReasonDataLoss,
		},
		"it is being deleted": {
			controlplanetest.Behaviour{HoldDelete: true},
			func(p *v1alpha1.NVMePartition) bool { return p.DeletionTimestamp != nil },
			func(h *harness, id string) { wantError(h.t, h.delete(h.within(brief), id), codes.DeadlineExceeded) }, "being deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, controlplanetest.Behaviour{})
			id := h.created("pvc-1")
			h.stub.Become(c.behaviour)
			c.prepare(h, id)
			h.cacheShows("pvc-1", c.wait)
			h.requests.Take()
			_, err := h.expand(h.within(enough), id, large, 0, nil)
			wantError(t, err, codes.FailedPrecondition, c.says)
			h.wantRequests()
		})
	}
}

// TestAVolumeThatIsDeletedWhileItGrowsEndsTheCall; meanwhile nobody else gets
// in between.
func TestAVolumeThatIsDeletedWhileItGrowsEndsTheCall(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{MaxSize: small, HoldDelete: true})
	id := h.created("pvc-1")
	ended := make(chan error, 1)
	go func() {
		_, err := h.expand(h.within(enough), id, large, 0, nil)
		ended <- err
	}()
	h.cacheShows("pvc-1", func(p *v1alpha1.NVMePartition) bool { return p.Spec.Size == large })
	_, err := h.expand(h.within(enough), id, large, 0, nil)
	wantError(t, err, codes.Aborted, "another operation")
	h.must(server.Client().Delete(t.Context(), &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "pvc-1"}}))
	wantError(t, <-ended, codes.FailedPrecondition, "being deleted")
}
