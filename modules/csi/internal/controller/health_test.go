package controller_test

import (
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func (h *harness) ailments(id string) []string {
	h.t.Helper()
	r, err := h.ControllerGetVolumeHealth(h.within(enough), &csi.ControllerGetVolumeHealthRequest{VolumeId: id})
	h.must(err)
	if got := r.GetVolumeHealth().GetVolumeId(); got != id {
		h.t.Errorf("health of %s, want of %s", got, id)
	}
	ailments := []string{}
	for _, e := range r.GetVolumeHealth().GetHealthStatuses() {
		ailments = append(ailments, e.GetStatus().String()+" "+e.GetReason())
	}
	return ailments
}

func TestHealthIsWhatTheObjectsSay(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		change func(*controlplanetest.Storage)
		refuse string
		want   []string
	}{
		"well": {"well", func(*controlplanetest.Storage) {}, "", []string{}},
		"agent silent": {"silent", func(s *controlplanetest.Storage) {
			meta.SetStatusCondition(&s.Node.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeartbeatExpired,
			})
		}, "", []string{"DEGRADED HeartbeatExpired"}},
		"node not reported": {"unreported", func(s *controlplanetest.Storage) { s.Node = nil }, "", []string{"DEGRADED StorageNodeUnknown"}},
		"data lost":         {"lost", func(*controlplanetest.Storage) {}, v1alpha1.ReasonDataLoss, []string{"DATA_LOSS DataLoss", "INACCESSIBLE ExportFailed"}},
		"drive away":        {"away", func(*controlplanetest.Storage) {}, v1alpha1.ReasonDriveRefused, []string{"INACCESSIBLE DriveRefused", "INACCESSIBLE ExportFailed"}},
	} {
		t.Run(name, func(t *testing.T) {
			storage := controlplanetest.NewStorage("health-"+c.node, "rack-health", "HEALTH", 1<<30)
			c.change(storage)
			server.Provide(t, storage)
			h := newHarness(t, controlplanetest.Behaviour{StorageNode: "health-" + c.node})
			id := h.created("pvc-1")
			if c.refuse != "" {
				h.stub.Become(controlplanetest.Behaviour{Refuse: c.refuse})
				h.cacheShows("pvc-1", func(p *v1alpha1.NVMePartition) bool {
					return !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported)
				})
			}
			if diff := cmp.Diff(c.want, h.ailments(id)); diff != "" {
				t.Error(diff)
			}
			r, err := h.ControllerListVolumeHealth(h.within(enough), &csi.ControllerListVolumeHealthRequest{})
			h.must(err)
			sick := slices.ContainsFunc(r.GetEntries(), func(e *csi.VolumeHealth) bool { return e.GetVolumeId() == id })
			if sick != (len(c.want) > 0) {
				t.Errorf("listed among the unhealthy: %t", sick)
			}
			h.wantRequests()
		})
	}
}
