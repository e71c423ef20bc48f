package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/access"
	"github.com/distort-io/distort/modules/agent/internal/partition"
	"github.com/distort-io/distort/modules/agent/internal/pool"
	"github.com/distort-io/distort/modules/agent/internal/poolsnapshot"
	"github.com/distort-io/distort/modules/agent/internal/poolvolume"
	"github.com/distort-io/distort/modules/agent/internal/report"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
)

const (
	mib       = 1 << 20
	driveSize = 1 << 30
	sliceSize = 64 * mib
	nodeName  = "storage-0"
	serial    = "S3R1AL"
	consumer  = "consumer-0"
)

// world is a storage node and an API server, both of which outlive the agents.
type world struct {
	t    *testing.T
	node *volumetest.Node
	api  client.Client
	made int // objects that got a UID
	// restarts tells that it is SPDK that ends in a flow, and not the agent.
	restarts bool
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	return newWorldOn(t, volumetest.NewNode(nodeName, serial, driveSize), objects...)
}

// newSPDKWorld is a world whose volumes are SPDK's.
func newSPDKWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := newWorldOn(t, volumetest.NewSPDKNode(t, nodeName, serial, driveSize), objects...)
	t.Cleanup(w.close)
	return w
}

// close ends what runs on the node. No two changes of one object of SPDK's were in
// flight together.
func (w *world) close() {
	w.t.Helper()
	if c := w.node.Close(); len(c) > 0 {
		w.t.Errorf("changes of one object in flight together: %v", c)
	}
}

func newWorldOn(t *testing.T, node *volumetest.Node, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.NVMePartition{}, &v1alpha1.NVMeVolumeAttachment{}, &v1alpha1.NVMeDevice{}, &v1alpha1.RDMAStorageNode{},
			&v1alpha1.Volume{}, &v1alpha1.Snapshot{}, &v1alpha1.StorageNode{}).
		WithIndex(&v1alpha1.NVMeVolumeAttachment{}, "spec.volumeRef.uid", volume.VolumeOfAttachment).
		WithIndex(&v1alpha1.NVMePartition{}, "spec.parentDeviceSerialNumber", volume.DriveOfPartition).
		WithObjects(append(objects, node.Device())...).
		Build()
	return &world{t: t, node: node, api: api}
}

// create makes an object; one without a UID gets one that no other ever had, as
// at a real API server.
func (w *world) create(o client.Object) {
	w.t.Helper()
	if o.GetUID() == "" {
		w.made++
		o.SetUID(volumetest.UID(fmt.Sprintf("object %d", w.made)))
	}
	if err := w.api.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(o client.Object) {
	w.t.Helper()
	if err := w.api.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
}

// reload reads the object again; false when it is gone.
func (w *world) reload(o client.Object) bool {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return err == nil
}

// setStatus changes an object's status as somebody else would.
func setStatus[T client.Object](w *world, o T, change func(T)) {
	w.t.Helper()
	w.reload(o)
	before := o.DeepCopyObject().(client.Object)
	change(o)
	if err := w.api.Status().Patch(w.t.Context(), o, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// agent is one life of the agent, whose queue the test runs.
type agent struct {
	*volumetest.Process
	world      *world
	gate       *volume.Gate
	restore    *volume.Restore
	partitions *partition.Reconciler
	access     *access.Reconciler
	volumes    *poolvolume.Reconciler
	snapshots  *poolsnapshot.Reconciler
	pools      *pool.Reporter
	reporter   *report.Reporter
	heartbeat  *report.Heartbeat
	recorder   *events.FakeRecorder
}

// boot makes an agent and starts it.
func (w *world) boot() *agent {
	w.t.Helper()
	a := w.newAgent()
	a.start()
	return a
}

// start is what the agent does first: it restores the exports.
func (a *agent) start() {
	a.world.t.Helper()
	if err := a.restore.Start(context.Background()); err != nil {
		a.world.t.Fatal(err)
	}
}

func (w *world) newAgent() *agent {
	w.t.Helper()
	p := w.node.Boot(w.t, w.api)
	recorder := events.NewFakeRecorder(1000)
	gate := volume.NewGate()
	reporter, err := report.New(report.Config{
		Client: p.Client, NodeName: nodeName, Hardware: p.Hardware, Media: p, Tables: p,
		Strangers: func() ([]string, bool) { return nil, true }, Unseen: func() string { return "" }, Ready: func() bool { return true }, TCPPort: 4420, RDMAPort: 4421,
		Now: func() time.Time { return now },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	zvols := &poolvolume.Locator{Pools: &pool.Owner{Client: p.Client, NodeName: nodeName, ZFS: p.ZFS}, ZFS: p.ZFS}
	finders := volume.Finders{v1alpha1.KindNVMePartition: p.Locators, v1alpha1.KindVolume: zvols}
	pools, err := pool.NewReporter(pool.Config{
		Client: p.Client, NodeName: nodeName, ZFS: p.ZFS, Portals: volume.NewHostPortals(w.node, 4420, 4421), Delay: noDelay,
		Now: func() time.Time { return now },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	restore := volume.NewRestore(p.Exporter, finders)
	return &agent{
		pools:     pools,
		snapshots: &poolsnapshot.Reconciler{Client: p.Client, Recorder: recorder, NodeName: nodeName, Pools: zvols.Pools, ZFS: p.ZFS, Delay: noDelay},
		volumes: &poolvolume.Reconciler{
			Client: p.Client, Recorder: recorder, NodeName: nodeName, Locator: zvols, Exporter: p.Exporter, Accounts: pools,
			Started: gate, Restored: restore.Done(), Delay: noDelay,
		},
		Process: p, world: w, gate: gate, restore: restore, recorder: recorder,
		partitions: &partition.Reconciler{
			Client: p.Client, Recorder: recorder, NodeName: nodeName, Backends: p.Backends, Locators: p.Locators, Exporter: p.Exporter,
			Started: gate, Restored: restore.Done(), Delay: noDelay,
		},
		access: &access.Reconciler{
			Client: p.Client, Recorder: recorder, NodeName: nodeName, Locator: finders, Exporter: p.Exporter,
			Restored: restore.Done(), Delay: noDelay,
		},
		reporter:  reporter,
		heartbeat: &report.Heartbeat{Client: p.Client, NodeName: nodeName, Namespace: volumetest.Namespace, Now: func() time.Time { return now }},
	}
}

// verifier compares exports with what they should be.
func (a *agent) verifier() *volume.Verifier {
	return volume.NewVerifier(a.Exporter, volume.Finders{v1alpha1.KindNVMePartition: a.Locators, v1alpha1.KindVolume: a.volumes.Locator})
}

// now is the time on the node.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// reconcilePartition runs one pass over a partition.
func (a *agent) reconcilePartition(p *v1alpha1.NVMePartition) (reconcile.Result, error) {
	return a.partitions.Reconcile(context.Background(), requestOf(p))
}

// reconcileAttachment runs one pass over an attachment.
func (a *agent) reconcileAttachment(at *v1alpha1.NVMeVolumeAttachment) (reconcile.Result, error) {
	return a.access.Reconcile(context.Background(), requestOf(at))
}

// reconcileVolume runs one pass over a volume.
func (a *agent) reconcileVolume(v *v1alpha1.Volume) (reconcile.Result, error) {
	return a.volumes.Reconcile(context.Background(), requestOf(v))
}

// settle runs passes over all objects, as often as their changes would wake the
// agent, until nothing is written any more. It returns the errors of the last
// round. A dead agent does nothing.
func (a *agent) settle() error {
	a.world.t.Helper()
	for range 8 {
		before := a.Writes()
		var errs []error
		var partitions v1alpha1.NVMePartitionList
		var volumes v1alpha1.VolumeList
		var snapshots v1alpha1.SnapshotList
		var attachments v1alpha1.NVMeVolumeAttachmentList
		for _, list := range []client.ObjectList{&partitions, &volumes, &snapshots, &attachments} {
			if err := a.world.api.List(context.Background(), list); err != nil {
				a.world.t.Fatal(err)
			}
		}
		for i := range partitions.Items {
			_, err := a.reconcilePartition(&partitions.Items[i])
			errs = append(errs, err)
		}
		errs = append(errs, a.pools.Publish(context.Background()))
		for i := range volumes.Items {
			_, err := a.reconcileVolume(&volumes.Items[i])
			errs = append(errs, err)
		}
		for i := range snapshots.Items {
			_, err := a.snapshots.Reconcile(context.Background(), requestOf(&snapshots.Items[i]))
			errs = append(errs, err)
		}
		for i := range attachments.Items {
			_, err := a.reconcileAttachment(&attachments.Items[i])
			errs = append(errs, err)
		}
		if a.Dead() || maps.Equal(before, a.Writes()) && errors.Join(errs...) == nil {
			return nil
		}
		if maps.Equal(before, a.Writes()) {
			return errors.Join(errs...)
		}
	}
	return errors.New("the agent writes for ever")
}

// mustSettle is settle without an error.
func (a *agent) mustSettle() {
	a.world.t.Helper()
	if err := a.settle(); err != nil {
		a.world.t.Fatal(err)
	}
}

// events are what the agent has told since the last call.
func (a *agent) events() []string {
	var out []string
	for {
		select {
		case e := <-a.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// written returns what do made the agent write.
func (a *agent) written(do func()) map[string]int {
	before := a.Writes()
	do()
	out := map[string]int{}
	for what, n := range a.Writes() {
		if d := n - before[what]; d != 0 {
			out[what] = d
		}
	}
	return out
}

// state is the volume's subsystem, by a reader of its own.
func (w *world) state(p v1alpha1.Slice) (nvmeof.State, bool) {
	w.t.Helper()
	s, err := w.node.Target().Inspect(w.t.Context(), volumetest.NQN(p))
	if err != nil && !errors.Is(err, nvmeof.ErrNotFound) {
		w.t.Fatal(err)
	}
	return s, err == nil
}

// admits tells whether the target admits the host of the attachment.
func (w *world) admits(a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) bool {
	w.t.Helper()
	s, ok := w.state(p)
	return ok && (s.AllowAnyHost || slices.Contains(s.AllowedHosts, a.Spec.HostNQN))
}

func condition(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + "/" + c.Reason
}

func message(conditions []metav1.Condition, kind string) string {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func requestOf(o client.Object) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}
}
