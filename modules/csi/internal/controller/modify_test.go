package controller_test

import (
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func (h *harness) modify(within time.Duration, id string, parameters map[string]string) error {
	_, err := h.ControllerModifyVolume(h.within(within), &csi.ControllerModifyVolumeRequest{VolumeId: id, MutableParameters: parameters})
	return err
}

func (h *harness) wantCompression(spec, status string) {
	h.t.Helper()
	v := h.volumes()[0]
	if v.Spec.Compression != spec || v.Status.Compression != status {
		h.t.Errorf("compression is to be %q and is %q, want %q and %q", v.Spec.Compression, v.Status.Compression, spec, status)
	}
}

// TestModifyChangesTheCompressionInOneWrite, and none when there is nothing to do.
func TestModifyChangesTheCompressionInOneWrite(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", pool)
	h.requests.Take()
	h.must(h.modify(enough, id, map[string]string{"compression": "zstd"}))
	h.wantRequests("PATCH volumes/NAME")
	h.wantCompression("zstd", "zstd")
	h.must(h.modify(enough, id, map[string]string{"compression": "zstd"}))
	h.wantRequests()
	h.must(h.modify(enough, id, map[string]string{"compression": "off"}))
	h.wantCompression("off", "off")
	// The volume is still the one that this request asks for.
	if again := h.created("pvc-1", pool); again != id {
		t.Errorf("a retry of CreateVolume got %s, want %s", again, id)
	}
}

// TestMutableParametersOfANewVolumeTakePrecedence as the CSI specification has it.
func TestMutableParametersOfANewVolumeTakePrecedence(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	h.created("pvc-1", pool, func(r *csi.CreateVolumeRequest) {
		r.Parameters["compression"] = "lz4"
		r.MutableParameters = map[string]string{"compression": "zstd-9"}
	})
	h.wantCompression("zstd-9", "zstd-9")
}

func TestModifyRefusesWhatCannotChange(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", pool)
	h.requests.Take()
	for name, c := range map[string]struct {
		parameters map[string]string
		says       []string
	}{
		"an unknown parameter":     {map[string]string{"compress": "lz4"}, []string{`"compress"`, "cannot change", "compression"}},
		"one that is fixed":        {map[string]string{"blocksize": "4096"}, []string{`"blocksize"`, "cannot change"}},
		"a good one and a bad one": {map[string]string{"compression": "lz4", "pool": "tank"}, []string{`"pool"`}},
		"no value of the property": {map[string]string{"compression": "best"}, []string{"mutable_parameters compression", `"best"`}},
		"an option in the value":   {map[string]string{"compression": "lz4 -o x=y"}, []string{"compression"}},
		"nothing":                  {nil, []string{"mutable_parameters are missing"}},
		"an empty compression":     {map[string]string{"compression": ""}, []string{"compression"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, h.modify(enough, id, c.parameters), codes.InvalidArgument, c.says...)
		})
	}
	h.wantRequests()
	h.wantCompression("", "")
	wantError(t, h.modify(enough, h.handleWith(id, otherLife), map[string]string{"compression": "lz4"}), codes.NotFound)
}

// TestAModificationThatIsRefusedIsWithdrawn, so that it does not happen later.
func TestAModificationThatIsRefusedIsWithdrawn(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", pool, func(r *csi.CreateVolumeRequest) { r.Parameters["compression"] = "lz4" })
	h.stub.Become(controlplanetest.Behaviour{Pools: true, ModifyReason: v1alpha1.ReasonModifyRefused})
	wantError(t, h.modify(enough, id, map[string]string{"compression": "zstd"}), codes.FailedPrecondition, "compression zstd is refused")
	h.wantCompression("lz4", "lz4")
}

// TestAModificationThatTakesLongSaysWhatItWaitsFor, and goes on when it is asked for
// again.
func TestAModificationThatTakesLongSaysWhatItWaitsFor(t *testing.T) {
	h := newPoolHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1", pool)
	h.stub.Become(controlplanetest.Behaviour{Pools: true, ModifyReason: v1alpha1.ReasonModifyFailed})
	zstd := map[string]string{"compression": "zstd"}
	wantError(t, h.modify(brief, id, zstd), codes.DeadlineExceeded, v1alpha1.ReasonModifyFailed, "compression zstd")
	h.wantCompression("zstd", "")
	h.stub.Become(controlplanetest.Behaviour{Pools: true})
	h.must(h.modify(enough, id, zstd))
	h.wantCompression("zstd", "zstd")
}
