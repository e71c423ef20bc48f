// Package app wires distort-manager: one process from options to running
// controllers. Tests run the same wiring.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/capacity"
	"github.com/distort-io/distort/modules/manager/internal/claim"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
	"github.com/distort-io/distort/modules/manager/internal/metrics"
	"github.com/distort-io/distort/modules/manager/internal/nodehealth"
	"github.com/distort-io/distort/modules/manager/internal/placement"
	"github.com/distort-io/distort/modules/manager/internal/telemetry"
)

// leaderElectionID is the name of the Lease that the working replica holds.
const leaderElectionID = "distort-manager"

// flushTimeout bounds the export of the last spans.
const flushTimeout = 3 * time.Second

// Run runs distort-manager until the context ends.
func Run(ctx context.Context, o Options) error {
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.LogLevel}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	cfg, err := restConfig(o)
	if err != nil {
		return err
	}
	tracer, err := telemetry.FromEnv(ctx, os.Getenv, attribute.String("service.name", leaderElectionID))
	if err != nil {
		return err
	}
	mgr, err := New(ctx, cfg, o, time.Now, tracer)
	if err != nil {
		return err
	}
	err = mgr.Start(ctx)
	flush, done := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer done()
	if lost := tracer.Shutdown(flush); lost != nil {
		logger.Error(lost, "the last spans were not exported")
	}
	if err != nil {
		return fmt.Errorf("run controllers: %w", err)
	}
	return nil
}

func restConfig(o Options) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	cfg.QPS, cfg.Burst = o.KubeAPIQPS, o.KubeAPIBurst
	return cfg, nil
}

// New makes the manager with every controller and does not start it. The clock
// is time.Now outside tests. A nil tracer makes no spans.
func New(ctx context.Context, cfg *rest.Config, o Options, clock func() time.Time, tracer *telemetry.Tracer) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	skipNames := true // several managers share a process in tests
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&coordinationv1.Lease{}:          {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&v1alpha1.NVMeVolumeAttachment{}: {Namespaces: map[string]cache.Config{o.Namespace: {}}},
				&corev1.PersistentVolume{}:       {Transform: metrics.KeepHandle},
			},
		},
		Controller:                    config.Controller{SkipNameValidation: &skipNames},
		Metrics:                       server.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress:        o.HealthProbeBindAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 ptr.To(o.LeaseDuration),
		RenewDeadline:                 ptr.To(o.LeaseDuration * 2 / 3),
		RetryPeriod:                   ptr.To(o.LeaseDuration / 7),
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	if err := addControllers(ctx, mgr, o, clock, tracer); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add liveness probe: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add readiness probe: %w", err)
	}
	return mgr, nil
}

func addControllers(ctx context.Context, mgr manager.Manager, o Options, clock func() time.Time, tracer *telemetry.Tracer) error {
	heartbeats := heartbeat.NewTracker(clock)
	recorder := tracing.Events(mgr.GetEventRecorder(leaderElectionID))
	ledger := placement.NewLedger(placement.LedgerOptions{
		Clock: clock, Heartbeats: heartbeats, Live: mgr.GetAPIReader(),
		DefaultDomain: v1alpha1.DomainName(o.DefaultNetworkDomain),
	})
	if err := ledger.Watch(ctx, mgr.GetCache()); err != nil {
		return fmt.Errorf("watch the inventory: %w", err)
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.PersistentVolume{}); err != nil {
		return fmt.Errorf("watch PersistentVolumes: %w", err)
	}
	metrics.Inventory(mgr.GetClient())
	for name, setup := range map[string]func() error{
		"claim": func() error {
			r := &claim.Reconciler{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Ledger: ledger, Clock: clock, Recorder: recorder,
				Released: placement.Source(ledger, releasedDrives, 0),
			}
			return r.SetupWithManager(ctx, mgr)
		},
		"placement": func() error {
			for _, kind := range []v1alpha1.VolumeKind{v1alpha1.KindNVMePartition, v1alpha1.KindVolume} {
				r := &placement.Reconciler{
					Kind: kind, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Ledger: ledger, Recorder: recorder, Tracer: tracer,
				}
				if err := r.SetupWithManager(mgr); err != nil {
					return err
				}
			}
			return nil
		},
		"capacity": func() error {
			r := &capacity.Reconciler{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Ledger: ledger,
				Changes: placement.Source(ledger, changedSpace, capacity.Coalesce),
				Decided: placement.Source(ledger, decidedDrives, 0),
			}
			return r.SetupWithManager(mgr)
		},
		"nodehealth": func() error {
			r := &nodehealth.Reconciler{
				Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Heartbeats: heartbeats, Clock: clock, Namespace: o.Namespace, Recorder: recorder,
			}
			return r.SetupWithManager(mgr)
		},
		"revocation": func() error {
			return (&nodehealth.RevocationReconciler{Client: mgr.GetClient(), Recorder: recorder}).SetupWithManager(ctx, mgr)
		},
	} {
		if err := setup(); err != nil {
			return fmt.Errorf("set up the %s controller: %w", name, err)
		}
	}
	return nil
}

// releasedDrives asks for a look at the claims of drives that lost a partition.
func releasedDrives(change placement.Change) []claim.Request {
	var requests []claim.Request
	for _, serial := range change.Released {
		requests = append(requests, claim.Request{Serial: serial})
	}
	return requests
}

// decidedDrives asks for the reservation of what was decided.
func decidedDrives(change placement.Change) []capacity.Request {
	var requests []capacity.Request
	for _, device := range change.Reserve {
		requests = append(requests, capacity.Request{Device: device})
	}
	for _, owner := range change.ReserveOwners {
		requests = append(requests, capacity.Request{Owner: owner})
	}
	return requests
}

// changedSpace asks for a look at the free capacity of devices and nodes.
func changedSpace(change placement.Change) []capacity.Request {
	var requests []capacity.Request
	for _, device := range change.Devices {
		requests = append(requests, capacity.Request{Device: device})
	}
	for _, node := range change.Nodes {
		requests = append(requests, capacity.Request{Node: node})
	}
	for _, owner := range change.Owners {
		requests = append(requests, capacity.Request{Owner: owner})
	}
	return requests
}
