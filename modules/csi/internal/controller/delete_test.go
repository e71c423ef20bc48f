package controller_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func notFound(key client.ObjectKey) error {
	return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("objects").GroupResource(), key.Name)
}

func TestDeleteIsOneDELETEAndLeavesNothing(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.must(h.delete(h.within(enough), id))
	h.wantRequests("DELETE nvmepartitions/NAME")
	if left := h.partitions(); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestDeleteOfWhatIsGoneIsOK(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.must(h.delete(h.within(enough), id))
	for name, gone := range map[string]string{
		"deleted":      id,
		"never made":   h.handleWith(id, func(x *handle.Handle) { x.Name = "pvc-2" }),
		"not a handle": "some-volume",
		"a path (SE1)": "../../etc",
		"comma (SE4)":  "partition:x:y,z:" + otherUID,
		"endless":      strings.Repeat("x", 5000),
	} {
		t.Run(name, func(t *testing.T) { h.must(h.delete(h.within(enough), gone)) })
	}
}

func TestDeleteAnswersNothingAboutVolumesThatItDoesNotKnow(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	for name, foreign := range map[string]string{
		"a snapshot":              "snapshot::pvc-1:" + otherUID,
		"a kind of tomorrow":      "dataset::pvc-1:" + otherUID,
		"another namespace (SE8)": h.handleWith(id, func(x *handle.Handle) { x.Namespace = "kube-system" }),
		"none":                    "",
	} {
		t.Run(name, func(t *testing.T) { wantError(t, h.delete(h.within(enough), foreign), codes.InvalidArgument) })
	}
	h.wantRequests()
}

func TestDeleteOfAnEarlierLifeLeavesTheLaterOneSE8(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.must(h.delete(h.within(enough), h.handleWith(id, otherLife)))
	if n := len(h.partitions()); n != 1 {
		t.Errorf("%d volumes, want the one that lives", n)
	}
}

func TestDeleteOfAnAttachedVolumeIsRefusedDV10(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	h.published(id, nodeA, mountCapability())
	wantError(t, h.delete(h.within(enough), id), codes.FailedPrecondition, "att-", nodeA)
	h.wantRequests()
	h.must(h.unpublish(h.within(enough), id, nodeA))
	h.must(h.delete(h.within(enough), id))
}

// Known faults DV4 and DV8.
func TestDeleteIsAnsweredWhenTheBackendIsGoneAndNotBefore(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldDelete: true})
	id := h.created("pvc-1")
	wantError(t, h.delete(h.within(brief), id), codes.DeadlineExceeded, "held by the test")
	h.requests.Take()
	h.stub.Become(controlplanetest.Behaviour{})
	h.must(h.delete(h.within(enough), id))
	for _, r := range h.requests.Take() {
		if strings.HasPrefix(r, "DELETE") {
			t.Error("the object was deleted twice")
		}
	}
}

func TestDeleteOfAVolumeThatHostsAreConnectedToIsRefusedDV10(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldDelete: true, DeleteReason: v1alpha1.ReasonHostsConnected})
	id := h.created("pvc-1")
	wantError(t, h.delete(h.within(enough), id), codes.FailedPrecondition, v1alpha1.ReasonHostsConnected, "held by the test")
}

func TestDeleteBelievesTheAPIServerAndNotACacheThatIsBehind(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{HoldDelete: true}, func(o *controller.Options) { o.Client = blind{o.Client} })
	r, err := h.CreateVolume(h.within(2*brief), createRequest("pvc-1"))
	h.must(err)
	wantError(t, h.delete(h.within(brief), r.GetVolume().GetVolumeId()), codes.DeadlineExceeded)
	h.stub.Become(controlplanetest.Behaviour{})
	h.must(h.delete(h.within(2*brief), r.GetVolume().GetVolumeId()))
	if n := len(h.partitions()); n != 0 {
		t.Errorf("answered OK with %d volumes left", n)
	}
}
