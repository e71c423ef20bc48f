// Package registration tells kubelet about the driver: kubelet's plugin
// watcher finds a socket in its registry directory and asks it what it is
// (Kubernetes, "Kubelet Plugin Registration", pluginregistration/v1). This is
// all that the node-driver-registrar sidecar does.
package registration

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// csiVersion is the version of CSI that kubelet asks for.
const csiVersion = "1.0.0"

// Server implements the registration service for one driver.
type Server struct {
	registerapi.UnimplementedRegistrationServer
	driver, endpoint string
	log              logr.Logger
	registered       atomic.Bool
}

var _ registerapi.RegistrationServer = (*Server)(nil)

// New returns a server for the driver whose CSI socket has this path on the
// host.
func New(driver, endpoint string, log logr.Logger) *Server {
	return &Server{driver: driver, endpoint: endpoint, log: log}
}

// SocketName is the name of the registration socket of a driver.
func SocketName(driver string) string { return driver + "-reg.sock" }

// Registered tells whether kubelet has accepted the driver.
func (s *Server) Registered() bool { return s.registered.Load() }

// GetInfo answers what kind of plugin this is and where.
func (s *Server) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: s.driver, Endpoint: s.endpoint, SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus hears how it went. kubelet tries again by itself, so
// a refusal is told and changes readiness, and nothing more.
func (s *Server) NotifyRegistrationStatus(_ context.Context, r *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	s.registered.Store(r.GetPluginRegistered())
	if r.GetPluginRegistered() {
		s.log.Info("registered with kubelet", "driver", s.driver, "endpoint", s.endpoint)
	} else {
		s.log.Error(nil, "kubelet refused the driver", "driver", s.driver, "endpoint", s.endpoint, "reason", r.GetError())
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
