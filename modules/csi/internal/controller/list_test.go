package controller_test

import (
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

// listed returns the IDs of a page and the token of the next.
func (h *harness) listed(most int32, token string) (ids []string, next string) {
	h.t.Helper()
	r, err := h.ListVolumes(h.within(enough), &csi.ListVolumesRequest{MaxEntries: most, StartingToken: token})
	h.must(err)
	for _, e := range r.GetEntries() {
		ids = append(ids, e.GetVolume().GetVolumeId())
	}
	return ids, r.GetNextToken()
}

func TestListVolumesTellsVolumesAndTheirNodes(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	lone, shared := h.created("pvc-1"), h.created("pvc-2", sharedBlock)
	h.published(shared, nodeA, sharedBlockCapability())
	h.published(shared, nodeB, sharedBlockCapability())
	// One that is still being made is nobody's yet.
	h.stub.Become(controlplanetest.Behaviour{HoldExport: true})
	_, err := h.CreateVolume(h.within(brief), createRequest("pvc-3"))
	wantError(t, err, codes.DeadlineExceeded)
	h.requests.Take()

	r, err := h.ListVolumes(h.within(enough), &csi.ListVolumesRequest{})
	h.must(err)
	nodes := map[string]int{}
	for _, e := range r.GetEntries() {
		nodes[e.GetVolume().GetVolumeId()] = len(e.GetStatus().GetPublishedNodeIds())
		got, err := h.ControllerGetVolume(h.within(enough), &csi.ControllerGetVolumeRequest{VolumeId: e.GetVolume().GetVolumeId()})
		h.must(err)
		if got.GetVolume().String() != e.GetVolume().String() ||
			cmp.Diff(e.GetStatus().GetPublishedNodeIds(), got.GetStatus().GetPublishedNodeIds()) != "" {
			t.Errorf("listed %v, got %v", e, got)
		}
		if v := got.GetVolume(); v.GetCapacityBytes() != small || v.GetAccessibleTopology()[0].GetSegments()[topologyKey] != "default" {
			t.Errorf("got %v", v)
		}
	}
	if diff := cmp.Diff(map[string]int{lone: 0, shared: 2}, nodes); diff != "" {
		t.Error(diff)
	}
	h.wantRequests()
}

// TestTokensSurviveWhatComesAndGoes: between two pages the last volume of the
// first goes and others come; each of those that stay is listed once.
func TestTokensSurviveWhatComesAndGoes(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	want := map[string]int{}
	for i := range 5 {
		want[h.created(fmt.Sprintf("pvc-%d", i))] = 1
	}
	seen := map[string]int{}
	page, token := h.listed(2, "")
	for _, id := range page {
		seen[id]++
	}
	h.must(h.delete(h.within(enough), page[1]))
	// Later volumes come after all others, whatever their names.
	want[h.created("zzz")] = 1
	for token != "" {
		if page, token = h.listed(2, token); len(page) > 2 {
			t.Errorf("%d entries, want at most 2", len(page))
		}
		for _, id := range page {
			seen[id]++
		}
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestListVolumesRefusesTokensThatAreNotItsOwn(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	for token, code := range map[string]codes.Code{
		"":                       codes.OK,
		"1700000000/a":           codes.OK,
		"1":                      codes.Aborted,
		"/a":                     codes.Aborted,
		"01/a":                   codes.Aborted,
		"1/../etc":               codes.Aborted,
		"1/":                     codes.Aborted,
		"invalid-token":          codes.Aborted,
		"99999999999999999999/a": codes.Aborted,
	} {
		_, err := h.ListVolumes(h.within(enough), &csi.ListVolumesRequest{StartingToken: token})
		wantError(t, err, code)
		_, err = h.ControllerListVolumeHealth(h.within(enough), &csi.ControllerListVolumeHealthRequest{StartingToken: token})
		wantError(t, err, code)
	}
	_, err := h.ListVolumes(h.within(enough), &csi.ListVolumesRequest{MaxEntries: -1})
	wantError(t, err, codes.InvalidArgument, "max_entries")
}

func TestGetVolumeOfAnotherLifeIsNotFoundSE8(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.handleWith(h.created("pvc-1"), otherLife)
	_, err := h.ControllerGetVolume(h.within(enough), &csi.ControllerGetVolumeRequest{VolumeId: id})
	wantError(t, err, codes.NotFound)
	_, err = h.ControllerGetVolumeHealth(h.within(enough), &csi.ControllerGetVolumeHealthRequest{VolumeId: id})
	wantError(t, err, codes.NotFound)
	_, err = h.ControllerGetVolume(h.within(enough), &csi.ControllerGetVolumeRequest{})
	wantError(t, err, codes.InvalidArgument, "volume_id is missing")
}
