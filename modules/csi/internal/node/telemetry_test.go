package node_test

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/distort-io/distort/modules/csi/internal/metrics"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// TestCallsLinkToTheProvisioning: what comes with a publish context links to the
// trace that is named there; a call without one is known by its volume.
func TestCallsLinkToTheProvisioning(t *testing.T) {
	h := newHost(t)
	const provisioning = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	c := contextOf(uid)
	c.Traceparent = provisioning
	stage, publish := h.stageRequest(), h.publishRequest()
	stage.PublishContext, publish.PublishContext = h.encode(c), h.encode(c)
	for name, call := range map[string]struct {
		request any
		want    telemetry.Origin
	}{
		"stage":        {stage, telemetry.Origin{Volume: "pvc-1", Cause: provisioning}},
		"publish":      {publish, telemetry.Origin{Volume: "pvc-1", Cause: provisioning}},
		"not traced":   {h.stageRequest(), telemetry.Origin{Volume: "pvc-1"}},
		"unstage":      {h.unstageRequest(), telemetry.Origin{Volume: "pvc-1"}},
		"a bad handle": {&csi.NodeUnstageVolumeRequest{VolumeId: "../x"}, telemetry.Origin{}},
		"no volume":    {&csi.NodeGetInfoRequest{}, telemetry.Origin{}},
	} {
		if diff := cmp.Diff(call.want, h.server().Origin(t.Context(), call.request)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheTimeUntilMountedIsCountedOnce: a stage that is repeated mounts nothing.
func TestTheTimeUntilMountedIsCountedOnce(t *testing.T) {
	h := newHost(t)
	attached := contextOf(uid)
	attached.AttachedAt = time.Now().Add(-3 * time.Second)
	before := mounts(t)
	for range 2 {
		h.must(h.stage(func(r *csi.NodeStageVolumeRequest) { r.PublishContext = h.encode(attached) }))
	}
	if got := mounts(t) - before; got != 1 {
		t.Errorf("counted %d times", got)
	}
	states, err := h.server().PathStates()
	h.must(err)
	if diff := cmp.Diff(map[metrics.Path]int{{Transport: "tcp", State: "live"}: 1}, states); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func mounts(t *testing.T) uint64 {
	t.Helper()
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "distort_csi_publish_to_mounted_seconds" {
			return f.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	t.Fatal("no such metric")
	return 0
}
