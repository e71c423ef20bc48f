package controller_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

// TestWhatPartitionsCannotDoIsRefusedWithTheReason and never answered OK.
func TestWhatPartitionsCannotDoIsRefusedWithTheReason(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	gone := h.handleWith(id, otherLife)
	modify := func(id string, parameters map[string]string) error {
		_, err := h.ControllerModifyVolume(h.within(enough), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: parameters})
		return err
	}
	snapshot := func(name, id string) error {
		_, err := h.CreateSnapshot(h.within(enough), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: id})
		return err
	}
	deleteSnapshot := func(id string) error {
		_, err := h.DeleteSnapshot(h.within(enough), &csi.DeleteSnapshotRequest{SnapshotId: id})
		return err
	}
	source := func(s *csi.VolumeContentSource) error {
		_, err := h.CreateVolume(h.within(enough), createRequest("pvc-2", func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = s }))
		return err
	}
	iops := map[string]string{"iops": "canary", "bandwidth": "1"}
	for name, c := range map[string]struct {
		err  error
		code codes.Code
		says []string
	}{
		"modify":                  {modify(id, iops), codes.InvalidArgument, []string{`"bandwidth", "iops"`, "no parameter that can change"}},
		"modify nothing":          {modify(id, nil), codes.InvalidArgument, []string{"mutable_parameters are missing"}},
		"modify what is gone":     {modify(gone, iops), codes.NotFound, nil},
		"modify without a name":   {modify("", iops), codes.InvalidArgument, []string{"volume_id is missing"}},
		"snapshot":                {snapshot("s", id), codes.InvalidArgument, []string{"no snapshots", "kernel"}},
		"snapshot of the gone":    {snapshot("s", gone), codes.NotFound, nil},
		"snapshot without name":   {snapshot("", id), codes.InvalidArgument, []string{"name is missing"}},
		"snapshot of nothing":     {snapshot("s", ""), codes.InvalidArgument, []string{"source_volume_id is missing"}},
		"delete no snapshot":      {deleteSnapshot(""), codes.InvalidArgument, []string{"snapshot_id is missing"}},
		"delete what never was":   {deleteSnapshot("some-snapshot"), codes.OK, nil},
		"delete what is gone":     {deleteSnapshot("snapshot::s:" + otherUID), codes.OK, nil},
		"delete that of tomorrow": {deleteSnapshot("lvolsnap::s:" + otherUID), codes.InvalidArgument, []string{"unknown kind"}},
		"clone (CV4, CV13)": {source(&csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
		}}), codes.InvalidArgument, []string{"neither restored nor cloned"}},
		"restore (SN10)": {source(&csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: "s"},
		}}), codes.InvalidArgument, []string{"neither restored nor cloned"}},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, c.err, c.code, c.says...) })
	}
	if got := h.requests.Take(); slices.ContainsFunc(got, func(r string) bool { return !strings.HasPrefix(r, "GET ") }) {
		t.Errorf("asked of the API server: %v", got)
	}
	if n := len(h.partitions()); n != 1 {
		t.Errorf("%d volumes", n)
	}
}

// TestNoCapabilityIsOfferedThatNoBackendHas: a sidecar that sees it would promise
// something to users.
func TestNoCapabilityIsOfferedThatNoBackendHas(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	r, err := h.ControllerGetCapabilities(context.Background(), nil)
	h.must(err)
	offered := map[csi.ControllerServiceCapability_RPC_Type]bool{}
	for _, c := range r.GetCapabilities() {
		offered[c.GetRpc().GetType()] = true
	}
	if c := csi.ControllerServiceCapability_RPC_PUBLISH_READONLY; offered[c] {
		t.Errorf("%s is offered", c)
	}
}
