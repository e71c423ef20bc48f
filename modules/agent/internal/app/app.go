// Package app wires distort-agent: one process from options to running
// controllers. Tests run the same wiring on a host of their own.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/distort-io/distort/modules/agent/internal/access"
	"github.com/distort-io/distort/modules/agent/internal/jitter"
	"github.com/distort-io/distort/modules/agent/internal/metrics"
	"github.com/distort-io/distort/modules/agent/internal/partition"
	"github.com/distort-io/distort/modules/agent/internal/pool"
	"github.com/distort-io/distort/modules/agent/internal/poolsnapshot"
	"github.com/distort-io/distort/modules/agent/internal/poolvolume"
	"github.com/distort-io/distort/modules/agent/internal/report"
	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// component is the name in events.
const component = "distort-agent"

// Run runs distort-agent until the context ends.
func Run(ctx context.Context, o Options) error {
	logger := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: o.LogLevel}))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger.WithName("client-go"))
	host, err := OpenHost(ctx, o, logger)
	if err != nil {
		return err
	}
	cfg, err := restConfig(o)
	if err != nil {
		return err
	}
	return Serve(ctx, cfg, o, host, logger)
}

// flushTimeout bounds the export of the last spans.
const flushTimeout = 3 * time.Second

// Serve runs distort-agent on a host until the context ends.
func Serve(ctx context.Context, cfg *rest.Config, o Options, host Host, logger logr.Logger) error {
	tracer, err := telemetry.FromEnv(ctx, os.Getenv, attribute.String("service.name", component), attribute.String("k8s.node.name", o.NodeName))
	if err != nil {
		return err
	}
	mgr, err := New(ctx, cfg, o, host, tracer)
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

// New makes the manager with every controller and does not start it. Its cache
// holds the objects of this node only. A nil tracer makes no spans.
func New(ctx context.Context, cfg *rest.Config, o Options, host Host, tracer *telemetry.Tracer) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, eventsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	skipNames := true // several agents share a process in tests
	mgr, err := ctrl.NewManager(cfg, manager.Options{
		Scheme:                 scheme,
		Cache:                  cacheOptions(o),
		Controller:             config.Controller{SkipNameValidation: &skipNames},
		Metrics:                server.Options{BindAddress: o.MetricsBindAddress},
		HealthProbeBindAddress: o.HealthProbeBindAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	gate, uevents := volume.NewGate(), report.NewUevents()
	node, err := newBackends(host, mgr.GetClient())
	if err != nil {
		return nil, err
	}
	check, err := addVolumes(ctx, mgr, o, host, node, tracer, gate, uevents.Poke)
	if err != nil {
		return nil, err
	}
	if err := addReports(mgr, o, host, node, gate, uevents, check); err != nil {
		return nil, err
	}
	if err := addSPDK(mgr, host.SPDK, func() { check.Now(); uevents.Poke() }); err != nil {
		return nil, err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("add liveness probe: %w", err)
	}
	if err := mgr.AddReadyzCheck("targets", started(gate)); err != nil {
		return nil, fmt.Errorf("add readiness probe: %w", err)
	}
	return mgr, nil
}

// cacheOptions keep other nodes' objects out: an agent's load on the API server
// must not grow with the cluster (design.md §9).
func cacheOptions(o Options) cache.Options {
	inNamespace := map[string]cache.Config{o.Namespace: {}}
	ofNode := fields.OneTermEqualSelector("spec.nodeName", o.NodeName)
	named := fields.OneTermEqualSelector("metadata.name", o.NodeName)
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.NVMePartition{}:        {Namespaces: inNamespace, Field: ofNode},
			&v1alpha1.NVMeVolumeAttachment{}: {Namespaces: inNamespace, Field: fields.OneTermEqualSelector("spec.targetNode", o.NodeName)},
			&v1alpha1.NVMeDevice{}:           {Field: ofNode},
			&v1alpha1.RDMAStorageNode{}:      {Field: named},
			&v1alpha1.Volume{}:               {Field: fields.OneTermEqualSelector("spec.ownerNode", o.NodeName)},
			&v1alpha1.Snapshot{}:             {Field: ofNode},
			&v1alpha1.StorageNode{}:          {Field: named},
			&corev1.Node{}:                   {Field: named},
		},
	}
}

// addVolumes adds what carves, exports and admits. audited is called when the
// check of the exports found something else than before.
func addVolumes(ctx context.Context, mgr manager.Manager, o Options, host Host, node backends, tracer *telemetry.Tracer, gate *volume.Gate, audited func()) (*volume.Check, error) {
	if err := volume.IndexAttachments(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("index attachments: %w", err)
	}
	if err := volume.IndexPartitions(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, fmt.Errorf("index partitions: %w", err)
	}
	pools := &pool.Owner{Client: mgr.GetClient(), NodeName: o.NodeName, ZFS: host.ZFS}
	zvols := &poolvolume.Locator{Pools: pools, ZFS: host.ZFS}
	finders := volume.Finders{v1alpha1.KindNVMePartition: node.carvers, v1alpha1.KindVolume: zvols}
	portals := volume.NewHostPortals(node.hardware, o.TCPPort, o.RDMAPort)
	exporter := volume.NewExporter(mgr.GetClient(), node.exports, portals, node.hardware)
	restore := volume.NewRestore(exporter, finders)
	delay := jitter.HalfToFull(o.CheckInterval)
	check := volume.NewCheck(mgr.GetClient(), volume.NewVerifier(exporter, finders), delay, audited)
	for _, runnable := range []manager.Runnable{restore, check, gate.Watch(mgr.GetCache())} {
		if err := mgr.Add(runnable); err != nil {
			return nil, fmt.Errorf("add to the manager: %w", err)
		}
	}
	recorder := tracing.Events(mgr.GetEventRecorder(component))

	partitions := &partition.Reconciler{
		Client: mgr.GetClient(), Recorder: recorder, NodeName: o.NodeName,
		Backends: node.exports, Locators: node.carvers, Exporter: exporter, Started: gate, Restored: restore.Done(), Delay: delay, Tracer: tracer,
	}
	metrics.Node(metrics.Source{Cache: mgr.GetClient(), Strangers: check.Strangers})
	if err := partitions.SetupWithManager(mgr, check); err != nil {
		return nil, fmt.Errorf("set up the partition controller: %w", err)
	}
	accounts, err := pool.NewReporter(pool.Config{
		Client: mgr.GetClient(), NodeName: o.NodeName, ZFS: host.ZFS, Portals: portals, Delay: jitter.HalfToFull(o.ScanInterval),
	})
	if err != nil {
		return nil, err
	}
	if err := accounts.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the pool reporter: %w", err)
	}
	volumes := &poolvolume.Reconciler{
		Client: mgr.GetClient(), Recorder: recorder, NodeName: o.NodeName, Locator: zvols, Exporter: exporter,
		Accounts: accounts, Started: gate, Restored: restore.Done(), Delay: delay, Tracer: tracer,
	}
	if err := volumes.SetupWithManager(mgr, check); err != nil {
		return nil, fmt.Errorf("set up the volume controller: %w", err)
	}
	snapshots := &poolsnapshot.Reconciler{
		Client: mgr.GetClient(), Recorder: recorder, NodeName: o.NodeName, Pools: pools, ZFS: host.ZFS, Delay: delay, Tracer: tracer,
	}
	if err := snapshots.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the snapshot controller: %w", err)
	}
	attachments := &access.Reconciler{
		Client: mgr.GetClient(), Recorder: recorder, NodeName: o.NodeName, Locator: finders, Exporter: exporter,
		Latest: latest(partitions, volumes), Restored: restore.Done(), Delay: delay, Tracer: tracer,
	}
	if err := attachments.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("set up the access controller: %w", err)
	}
	return check, nil
}

// latest asks the reconciler of a volume for what it wrote last.
func latest(partitions *partition.Reconciler, volumes *poolvolume.Reconciler) func(v1alpha1.Slice) v1alpha1.Slice {
	return func(cached v1alpha1.Slice) v1alpha1.Slice {
		switch s := cached.(type) {
		case *v1alpha1.NVMePartition:
			return partitions.Latest(s)
		case *v1alpha1.Volume:
			return volumes.Latest(s)
		}
		return cached
	}
}

// addReports adds what tells the cluster of this node.
func addReports(mgr manager.Manager, o Options, host Host, node backends, gate *volume.Gate, uevents *report.Uevents, check *volume.Check) error {
	var spdk func(context.Context) metav1.Condition
	if host.SPDK != nil {
		spdk = host.SPDK.condition
	}
	reporter, err := report.New(report.Config{
		SPDK: spdk, Client: mgr.GetClient(), NodeName: o.NodeName, Hardware: node.hardware, Media: node.prober,
		Tables: node.tables, Strangers: check.Strangers, Unseen: check.Unseen, Ready: gate.IsOpen,
		TCPPort: o.TCPPort, RDMAPort: o.RDMAPort, Delay: jitter.HalfToFull(o.ScanInterval),
	})
	if err != nil {
		return err
	}
	if err := reporter.SetupWithManager(mgr, uevents.Changed()); err != nil {
		return fmt.Errorf("set up the reporter: %w", err)
	}
	for _, runnable := range []manager.Runnable{
		uevents,
		&report.Heartbeat{Client: mgr.GetClient(), NodeName: o.NodeName, Namespace: o.Namespace},
		// The node becomes Ready when the gate opens, not with the next scan.
		manager.RunnableFunc(func(ctx context.Context) error {
			select {
			case <-gate.Opened():
				uevents.Poke()
			case <-ctx.Done():
			}
			return nil
		}),
	} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("add to the manager: %w", err)
		}
	}
	return nil
}

// addSPDK adds what runs SPDK's target and notices when it was started anew.
func addSPDK(mgr manager.Manager, s *SPDK, again func()) error {
	if s == nil {
		return nil
	}
	for _, run := range []manager.RunnableFunc{s.run, func(ctx context.Context) error { return s.watch(ctx, again) }} {
		if err := mgr.Add(run); err != nil {
			return fmt.Errorf("add to the manager: %w", err)
		}
	}
	return nil
}

// started is the readiness probe: the targets were rebuilt.
func started(gate *volume.Gate) healthz.Checker {
	return func(*http.Request) error {
		if !gate.IsOpen() {
			return errors.New("not every export was looked at yet")
		}
		return nil
	}
}
