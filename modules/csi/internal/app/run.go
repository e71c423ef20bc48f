package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/identity"
	"github.com/distort-io/distort/modules/csi/internal/redact"
	"github.com/distort-io/distort/modules/csi/internal/registration"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/rpc"
)

// Run serves until ctx ends.
func Run(ctx context.Context, o Options, config *rest.Config, host Host, log logr.Logger) error {
	o = o.complete()
	if err := o.Validate(); err != nil {
		return fmt.Errorf("flags: %w", err)
	}
	config = rest.CopyConfig(config)
	// The API server's priority and fairness bound us; a second limit here
	// would only queue attachments behind each other (design.md §9).
	config.QPS = -1
	config.UserAgent = "distort-csi/" + Version()

	p := &parts{ready: &readiness{}, asked: ctx}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.group, ctx = errgroup.WithContext(ctx)
	err := p.assemble(ctx, o, config, host, log)
	if err == nil {
		err = p.serve(ctx, o, log)
	}
	if err != nil {
		cancel()
	}
	// What was started has ended when Run returns.
	if ended := p.group.Wait(); err == nil && !errors.Is(ended, context.Canceled) {
		err = ended
	}
	return err
}

// parts are what a process of some mode consists of.
type parts struct {
	group *errgroup.Group
	// asked ends when the program is asked to end.
	asked      context.Context
	ready      *readiness
	controller csi.ControllerServer
	node       csi.NodeServer
}

func (p *parts) assemble(ctx context.Context, o Options, config *rest.Config, host Host, log logr.Logger) error {
	var err error
	if o.Mode.controller() {
		if p.controller, err = p.newController(ctx, o, config); err != nil {
			return fmt.Errorf("controller service: %w", err)
		}
	}
	if o.Mode.node() {
		if o.LoadModules {
			loadModules(ctx, host.Commands, log)
		}
		if err := p.startNode(ctx, o, config, host, log.WithName("node")); err != nil {
			return fmt.Errorf("node service: %w", err)
		}
	}
	return nil
}

func (p *parts) serve(ctx context.Context, o Options, log logr.Logger) error {
	path, err := rpc.SocketPath(o.Endpoint)
	if err != nil {
		return err
	}
	redactor := redact.New(request.ParameterKeys())
	l, err := rpc.Listen(ctx, path, true)
	if err != nil {
		return fmt.Errorf("CSI socket: %w", err)
	}
	p.group.Go(func() error {
		return rpc.Serve(ctx, l, log.WithName("csi"), redactor, func(r grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(r, identity.New(identity.Options{
				Version: Version(), Controller: p.controller != nil, Ready: p.ready.serving,
			}))
			if p.controller != nil {
				csi.RegisterControllerServer(r, p.controller)
			}
			if p.node != nil {
				csi.RegisterNodeServer(r, p.node)
			}
		})
	})
	if o.Mode.node() && o.RegistrationDir != none {
		if err := p.register(ctx, o, path, log.WithName("registration"), redactor); err != nil {
			return err
		}
	}
	return p.serveHTTP(ctx, o)
}

// register comes after the CSI socket is open: kubelet calls it at once.
func (p *parts) register(ctx context.Context, o Options, endpoint string, log logr.Logger, redactor *redact.Redactor) error {
	server := registration.New(v1alpha1.DriverName, endpoint, log)
	p.ready.require("registered with kubelet", server.Registered)
	l, err := rpc.Listen(ctx, filepath.Join(o.RegistrationDir, registration.SocketName(v1alpha1.DriverName)), false)
	if err != nil {
		return fmt.Errorf("registration socket: %w", err)
	}
	p.group.Go(func() error {
		return rpc.Serve(ctx, l, log, redactor, func(r grpc.ServiceRegistrar) {
			registerapi.RegisterRegistrationServer(r, server)
		})
	})
	return nil
}
