package controller_test

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

func (h *harness) snapshot(name, volume string) (*csi.Snapshot, error) {
	return h.snapshotWithin(enough, name, volume)
}

func (h *harness) snapshotWithin(d time.Duration, name, volume string) (*csi.Snapshot, error) {
	r, err := h.CreateSnapshot(h.within(d), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume})
	return r.GetSnapshot(), err
}

func (h *harness) deleteSnapshot(id string) error {
	_, err := h.DeleteSnapshot(h.within(enough), &csi.DeleteSnapshotRequest{SnapshotId: id})
	return err
}

func fromSnapshot(id string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
		}}
	}
}

func fromVolume(id string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
		}}
	}
}

// listedSnapshots are the IDs of the snapshots that a request lists.
func (h *harness) listedSnapshots(r *csi.ListSnapshotsRequest) []string {
	h.t.Helper()
	var ids []string
	for {
		page, err := h.ListSnapshots(h.within(enough), r)
		h.must(err)
		for _, e := range page.GetEntries() {
			ids = append(ids, e.GetSnapshot().GetSnapshotId())
		}
		if r.StartingToken = page.GetNextToken(); r.StartingToken == "" {
			return ids
		}
	}
}

func TestASnapshotIsOnePOSTAndOneDELETE(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	volume := h.created("pvc-1", pool)
	s, err := h.snapshot("snap-1", volume)
	h.must(err)
	h.wantRequests("POST snapshots")
	id := s.GetSnapshotId()
	if s.GetSourceVolumeId() != volume || s.GetSizeBytes() != small || !s.GetReadyToUse() || !s.GetCreationTime().IsValid() {
		t.Errorf("got %v", s)
	}
	again, err := h.snapshot("snap-1", volume)
	h.must(err)
	if again.GetSnapshotId() != id {
		t.Errorf("another snapshot: %v", again)
	}
	h.wantRequests()
	other := h.created("pvc-2", pool)
	_, err = h.snapshot("snap-1", other)
	wantError(t, err, codes.AlreadyExists, "pvc-1")
	second, err := h.snapshot("snap-2", other)
	h.must(err)
	h.requests.Take()

	for name, c := range map[string]struct {
		request *csi.ListSnapshotsRequest
		want    int
	}{
		"all":               {&csi.ListSnapshotsRequest{MaxEntries: 1}, 2},
		"one":               {&csi.ListSnapshotsRequest{SnapshotId: id}, 1},
		"of a volume":       {&csi.ListSnapshotsRequest{SourceVolumeId: other}, 1},
		"of another volume": {&csi.ListSnapshotsRequest{SnapshotId: id, SourceVolumeId: other}, 0},
		"of an ID of none":  {&csi.ListSnapshotsRequest{SnapshotId: "none"}, 0},
		"of no volume":      {&csi.ListSnapshotsRequest{SourceVolumeId: "none"}, 0},
	} {
		if got := h.listedSnapshots(c.request); len(got) != c.want {
			t.Errorf("%s: listed %v, want %d", name, got, c.want)
		}
	}
	one, err := h.GetSnapshot(h.within(enough), &csi.GetSnapshotRequest{SnapshotId: id})
	h.must(err)
	if one.GetSnapshot().String() != s.String() {
		t.Errorf("got %v, want %v", one.GetSnapshot(), s)
	}
	h.wantRequests()

	h.must(h.deleteSnapshot(id))
	h.wantRequests("DELETE snapshots/NAME")
	h.must(h.deleteSnapshot(id))
	h.must(h.deleteSnapshot(second.GetSnapshotId()))
	h.requests.Take()
	_, err = h.GetSnapshot(h.within(enough), &csi.GetSnapshotRequest{SnapshotId: id})
	wantError(t, err, codes.NotFound)
}

func TestAVolumeIsMadeOfASnapshotOrOfAVolume(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	volume := h.created("pvc-1", pool)
	s, err := h.snapshot("snap-1", volume)
	h.must(err)
	for name, from := range map[string]func(*csi.CreateVolumeRequest){"pvc-2": fromSnapshot(s.GetSnapshotId()), "pvc-3": fromVolume(volume)} {
		h.requests.Take()
		r, err := h.CreateVolume(h.within(enough), createRequest(name, pool, from))
		h.must(err)
		h.wantRequests("POST volumes")
		if r.GetVolume().GetContentSource() == nil {
			t.Errorf("%s: the answer names no source: %v", name, r)
		}
		_, err = h.CreateVolume(h.within(enough), createRequest(name, pool, from))
		h.must(err)
		_, err = h.CreateVolume(h.within(enough), createRequest(name, pool))
		wantError(t, err, codes.AlreadyExists)
	}
	for _, v := range h.volumes() {
		switch of, copied := v.Spec.SourceSnapshot, v.Spec.SourceVolume; v.Name {
		case "pvc-2":
			if of == nil || of.Name != "snap-1" || copied != nil {
				t.Errorf("pvc-2 is made of %v and %v", of, copied)
			}
		case "pvc-3":
			if of != nil || copied == nil || copied.Name != "pvc-1" || copied.Kind != v1alpha1.KindVolume {
				t.Errorf("pvc-3 is made of %v and %v", of, copied)
			}
		}
	}
	gone := func(change func(*handle.Handle)) string { return h.handleWith(s.GetSnapshotId(), change) }
	for name, c := range map[string]struct {
		change func(*csi.CreateVolumeRequest)
		code   codes.Code
	}{
		"a snapshot of an earlier life": {fromSnapshot(gone(otherLife)), codes.NotFound},
		"a snapshot that never was":     {fromSnapshot("none"), codes.NotFound},
		"no snapshot ID":                {fromSnapshot(""), codes.InvalidArgument},
		"a volume that never was":       {fromVolume("none"), codes.NotFound},
		"a volume as a snapshot":        {fromSnapshot(volume), codes.InvalidArgument},
		"smaller than its source": {func(r *csi.CreateVolumeRequest) {
			fromVolume(volume)(r)
			r.CapacityRange = &csi.CapacityRange{RequiredBytes: small / 2}
		}, codes.OutOfRange},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := h.CreateVolume(h.within(enough), createRequest("pvc-4", pool, c.change))
			wantError(t, err, c.code)
		})
	}
	if n := len(h.volumes()); n != 3 {
		t.Errorf("%d volumes", n)
	}
	h.must(h.deleteSnapshot(s.GetSnapshotId()))
}

func TestASnapshotThatCannotBeTakenIsWithdrawn(t *testing.T) {
	for reason, code := range map[string]codes.Code{
		v1alpha1.ReasonSourceGone: codes.FailedPrecondition, v1alpha1.ReasonSourceUnsupported: codes.FailedPrecondition,
		v1alpha1.ReasonNoSpace: codes.ResourceExhausted,
	} {
		t.Run(reason, func(t *testing.T) {
			h := newPoolHarness(t, controlplanetest.Behaviour{RefuseSnapshot: reason})
			volume := h.created("pvc-1", pool)
			_, err := h.snapshot("snap-1", volume)
			wantError(t, err, code, reason, "refused by the test")
			var left v1alpha1.SnapshotList
			h.must(server.Client().List(h.within(enough), &left))
			if len(left.Items) != 0 {
				t.Errorf("left: %v", left.Items)
			}
			_, err = h.snapshot("snap-1", h.handleWith(volume, otherLife))
			wantError(t, err, codes.NotFound)
		})
	}
}

// A snapshot whose taking takes longer than the call is found by the next one (SN8).
func TestASnapshotThatIsLateIsFoundByTheNextCall(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{RefuseSnapshot: v1alpha1.ReasonSnapshotFailed})
	volume := h.created("pvc-1", pool)
	h.requests.Take()
	_, err := h.snapshotWithin(brief, "snap-1", volume)
	wantError(t, err, codes.DeadlineExceeded, v1alpha1.ReasonSnapshotFailed)
	h.stub.Become(controlplanetest.Behaviour{Pools: true})
	s, err := h.snapshot("snap-1", volume)
	h.must(err)
	h.wantRequests("POST snapshots", "GET snapshots/NAME") // the one near the deadline
	h.stub.Become(controlplanetest.Behaviour{Pools: true, HoldDelete: true})
	ctx := h.within(brief)
	_, err = h.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: s.GetSnapshotId()})
	wantError(t, err, codes.DeadlineExceeded, "held by the test")
	_, err = h.CreateVolume(h.within(brief), createRequest("pvc-2", pool, fromSnapshot(s.GetSnapshotId())))
	wantError(t, err, codes.Unavailable, "not ready to use")
	h.stub.Become(controlplanetest.Behaviour{Pools: true})
	h.must(h.deleteSnapshot(s.GetSnapshotId()))
	if n := len(h.volumes()); n != 1 {
		t.Errorf("%d volumes", n)
	}
}

func TestDeleteOfAVolumeThatSnapshotsNeedIsRefused(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{HoldDelete: true, DeleteReason: v1alpha1.ReasonHasDependants})
	id := h.created("pvc-1", pool)
	wantError(t, h.delete(h.within(enough), id), codes.FailedPrecondition, v1alpha1.ReasonHasDependants, "held by the test")
	// It goes by itself once the snapshots are gone.
	h.stub.Become(controlplanetest.Behaviour{Pools: true})
	shows[v1alpha1.Volume](h, client.ObjectKey{Name: "pvc-1"}, nil)
	h.must(h.delete(h.within(enough), id))
}

// formatted records a filesystem of the Volume, as its first node and distort-agent do.
func (h *harness) formatted(name string, t v1alpha1.FilesystemType) {
	h.t.Helper()
	var v v1alpha1.Volume
	key := client.ObjectKey{Name: name}
	h.must(server.Client().Get(h.within(enough), key, &v))
	before, at := v.DeepCopy(), metav1.Now()
	v.Status.Filesystem = &v1alpha1.FilesystemStatus{Type: t, UUID: identity.FilesystemUUID(string(v.UID)), FormattedAt: &at}
	h.must(server.Client().Status().Patch(h.within(enough), &v, client.MergeFrom(before)))
	shows(h, key, func(v *v1alpha1.Volume) bool { return v.Status.Filesystem != nil })
}

// ... and its block size, which ZFS cannot change: another one is refused before anything
// is made, of a volume and of its snapshot.
func TestAVolumeHasTheBlockSizeOfItsSource(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	blocks := func(bytes string) func(*csi.CreateVolumeRequest) {
		return func(r *csi.CreateVolumeRequest) { r.Parameters[request.ParameterBlockSize] = bytes }
	}
	volume := h.created("pvc-1", pool, blocks("8192"))
	snapshot, err := h.snapshot("snap-1", volume)
	h.must(err)
	for i, from := range []func(*csi.CreateVolumeRequest){fromVolume(volume), fromSnapshot(snapshot.GetSnapshotId())} {
		name := []string{"pvc-2", "pvc-3"}[i]
		_, err := h.CreateVolume(h.within(enough), createRequest(name, pool, from, blocks("4096")))
		wantError(t, err, codes.InvalidArgument, "blocksize 4096", "8192")
		_, err = h.CreateVolume(h.within(enough), createRequest(name, pool, from, blocks("8192")))
		h.must(err)
	}
	if n := len(h.volumes()); n != 3 {
		t.Errorf("%d volumes, want the source and two of it", n)
	}
}

// What is made of a source has its filesystem, which is never made anew.
func TestAVolumeHasTheFilesystemOfItsSource(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	volume := h.created("pvc-1", pool)
	h.formatted("pvc-1", v1alpha1.XFS)
	_, err := h.CreateVolume(h.within(enough), createRequest("pvc-2", pool, fromVolume(volume)))
	wantError(t, err, codes.InvalidArgument, "filesystem xfs", "ext4")
	if n := len(h.volumes()); n != 1 {
		t.Errorf("%d volumes", n)
	}
	_, err = h.CreateVolume(h.within(enough), createRequest("pvc-2", pool, fromVolume(volume), func(r *csi.CreateVolumeRequest) {
		r.Parameters[request.ParameterFilesystem] = "xfs"
	}))
	h.must(err)
}
