// Package identity is the CSI Identity service.
package identity

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Options configure a Server.
type Options struct {
	// Version of the program, without the leading v.
	Version string
	// Ready tells whether calls can be answered; nil means always.
	Ready func() bool
}

// Server implements csi.IdentityServer.
type Server struct {
	csi.UnimplementedIdentityServer
	options Options
}

var _ csi.IdentityServer = (*Server)(nil)

// New returns a server.
func New(o Options) *Server {
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	return &Server{options: o}
}

// GetPluginInfo names the driver.
func (s *Server) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: v1alpha1.DriverName, VendorVersion: s.options.Version}, nil
}

// GetPluginCapabilities lists the services of the driver as a whole, whichever of
// them this instance serves (CSI spec, GetPluginCapabilities), and what can be done
// with a volume in use.
func (s *Server) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	r := &csi.GetPluginCapabilitiesResponse{}
	for _, k := range []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	} {
		r.Capabilities = append(r.Capabilities, &csi.PluginCapability{
			Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: k}},
		})
	}
	// A volume grows while pods use it, and while none does.
	r.Capabilities = append(r.Capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}})
	return r, nil
}

// Probe tells whether calls can be answered. It asks nobody: sidecars call it
// often.
func (s *Server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(s.options.Ready())}, nil
}
