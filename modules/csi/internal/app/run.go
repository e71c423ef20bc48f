package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/identity"
	"github.com/distort-io/distort/modules/csi/internal/metrics"
	"github.com/distort-io/distort/modules/csi/internal/redact"
	"github.com/distort-io/distort/modules/csi/internal/registration"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/rpc"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// flushTimeout bounds the export of the last spans.
const flushTimeout = 3 * time.Second

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

	described := []attribute.KeyValue{attribute.String("service.name", "distort-csi-"+string(o.Mode)), attribute.String("service.version", Version())}
	if o.Mode.node() {
		described = append(described, attribute.String("k8s.node.name", o.NodeID))
	}
	tracer, err := telemetry.FromEnv(ctx, os.Getenv, described...)
	if err != nil {
		return err
	}
	p := &parts{ready: &readiness{}, asked: ctx, tracer: tracer}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.group, ctx = errgroup.WithContext(ctx)
	err = p.assemble(ctx, o, config, host, log)
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
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer done()
	if lost := tracer.Shutdown(flush); lost != nil {
		log.Error(lost, "the last spans were not exported")
	}
	return err
}

// parts are what a process of some mode consists of.
type parts struct {
	group *errgroup.Group
	// asked ends when the program is asked to end.
	asked      context.Context
	ready      *readiness
	tracer     *telemetry.Tracer
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
	interceptors := []grpc.UnaryServerInterceptor{metrics.Calls()}
	if p.tracer != nil {
		interceptors = append(interceptors, rpc.Trace(p.tracer, p.origin))
	}
	p.group.Go(func() error {
		return rpc.Serve(ctx, l, log.WithName("csi"), redactor, func(r grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(r, identity.New(identity.Options{Version: Version(), Ready: p.ready.serving}))
			if p.controller != nil {
				csi.RegisterControllerServer(r, p.controller)
			}
			if p.node != nil {
				csi.RegisterNodeServer(r, p.node)
			}
		}, interceptors...)
	})
	if o.Mode.node() && o.RegistrationDir != none {
		if err := p.register(ctx, o, path, log.WithName("registration"), redactor); err != nil {
			return err
		}
	}
	return p.serveHTTP(ctx, o)
}

// origin asks the services to which trace a call belongs.
func (p *parts) origin(ctx context.Context, call any) telemetry.Origin {
	for _, service := range []any{p.controller, p.node} {
		if s, ok := service.(interface {
			Origin(context.Context, any) telemetry.Origin
		}); ok {
			if o := s.Origin(ctx, call); o != (telemetry.Origin{}) {
				return o
			}
		}
	}
	return telemetry.Origin{}
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
