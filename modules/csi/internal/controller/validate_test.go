package controller_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
)

func TestValidateConfirmsWhatTheVolumeWasMadeForAndSaysWhyNot(t *testing.T) {
	h := newHarness(t, controlplanetest.Behaviour{})
	id := h.created("pvc-1")
	for name, c := range map[string]struct {
		request *csi.ValidateVolumeCapabilitiesRequest
		says    string
	}{
		"its own use":     {&csi.ValidateVolumeCapabilitiesRequest{VolumeCapabilities: []*csi.VolumeCapability{mountCapability()}}, ""},
		"another use":     {&csi.ValidateVolumeCapabilitiesRequest{VolumeCapabilities: []*csi.VolumeCapability{sharedBlockCapability()}}, "made for mount"},
		"a bad context":   {&csi.ValidateVolumeCapabilitiesRequest{VolumeCapabilities: []*csi.VolumeCapability{mountCapability()}, VolumeContext: map[string]string{"traddr": "x"}}, "traddr"},
		"a bad parameter": {&csi.ValidateVolumeCapabilitiesRequest{VolumeCapabilities: []*csi.VolumeCapability{mountCapability()}, Parameters: map[string]string{"transport": "fc"}}, "transport"},
	} {
		t.Run(name, func(t *testing.T) {
			c.request.VolumeId = id
			r, err := h.ValidateVolumeCapabilities(h.within(enough), c.request)
			h.must(err)
			if (r.GetConfirmed() != nil) != (c.says == "") || !strings.Contains(r.GetMessage(), c.says) {
				t.Errorf("got %v, want a message that says %q", r, c.says)
			}
		})
	}
	_, err := h.ValidateVolumeCapabilities(h.within(enough), &csi.ValidateVolumeCapabilitiesRequest{
		VolumeId: h.handleWith(id, otherLife), VolumeCapabilities: []*csi.VolumeCapability{mountCapability()},
	})
	wantError(t, err, codes.NotFound)
}
