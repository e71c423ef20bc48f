package identity_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/identity"
)

func TestPluginInfoNamesTheDriver(t *testing.T) {
	r, err := identity.New(identity.Options{Version: "1.2.3"}).GetPluginInfo(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.GetName() != "storage.distort.io" || r.GetVendorVersion() != "1.2.3" {
		t.Errorf("got %v", r)
	}
}

// A node's instance offers the Controller service too: without it a CO takes the
// driver for one whose volumes are not published.
func TestCapabilitiesAreTheDriversAsAWhole(t *testing.T) {
	r, err := identity.New(identity.Options{}).GetPluginCapabilities(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []csi.PluginCapability_Service_Type
	var expansion csi.PluginCapability_VolumeExpansion_Type
	for _, c := range r.GetCapabilities() {
		if e := c.GetVolumeExpansion(); e != nil {
			expansion = e.GetType()
			continue
		}
		got = append(got, c.GetService().GetType())
	}
	if expansion != csi.PluginCapability_VolumeExpansion_ONLINE {
		t.Errorf("expansion %s, want ONLINE", expansion)
	}
	want := []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestProbeAnswersWhetherReady(t *testing.T) {
	ready := false
	s := identity.New(identity.Options{Ready: func() bool { return ready }})
	for _, want := range []bool{false, true} {
		ready = want
		r, err := s.Probe(t.Context(), nil)
		if err != nil || r.GetReady().GetValue() != want {
			t.Errorf("got %v, %v, want ready %t", r, err, want)
		}
	}
}
