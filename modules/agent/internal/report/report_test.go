package report

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const node = "storage-1"

// world is the node: its hardware, its objects, and how much is written.
type world struct {
	*Reporter
	scan    inventory.Scan
	portals inventory.PortalScan
	uses    map[string][]inventory.Use
	usesErr error
	found   map[string]media.Finding
	tables  map[string]carve.Survey
	changes uint64
	audited []string // strangers on the target
	unseen  string   // what of the target nobody can see
	probed  []string // serials probed, in order
	started bool
	clock   time.Time
	writes  []string
	fail    error // of the next write
	read    int   // partitions that were listed

	surveyed  []string // serials surveyed, in order
	surveyErr error
}

func (w *world) Scan(context.Context) inventory.Scan          { return w.scan }
func (w *world) Portals(context.Context) inventory.PortalScan { return w.portals }
func (w *world) Uses(device string) ([]inventory.Use, error)  { return w.uses[device], w.usesErr }
func (w *world) Probe(_ context.Context, d inventory.Drive) media.Finding {
	w.probed = append(w.probed, d.Serial)
	return w.found[d.Serial]
}

func (w *world) Changes(string) uint64 { return w.changes }
func (w *world) Survey(_ context.Context, d inventory.Drive, blank bool) (carve.Survey, error) {
	w.surveyed = append(w.surveyed, d.Serial)
	if blank {
		return carve.Survey{LargestFree: d.SizeBytes}, w.surveyErr
	}
	return w.tables[d.Serial], w.surveyErr
}

// counted notes a write, or refuses it.
func (w *world) counted(what string, o client.Object, write func() error) error {
	if err := w.fail; err != nil {
		w.fail = nil
		return err
	}
	w.writes = append(w.writes, what+" "+o.GetName())
	return write()
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{
		scan:    inventory.Scan{Complete: true, Drives: []inventory.Drive{drive("A", 1), drive("B", 2)}},
		portals: inventory.PortalScan{Complete: true, Portals: []inventory.Portal{tcp("10.0.0.1"), rdma("10.0.0.1")}},
		uses:    map[string][]inventory.Use{},
		tables:  map[string]carve.Survey{},
		found:   map[string]media.Finding{"A": {Verdict: media.Blank, Message: "blank"}, "B": {Verdict: media.Distort, Message: "ours"}},
		started: true,
		clock:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.NVMeDevice{}, &v1alpha1.RDMAStorageNode{}, &v1alpha1.NVMePartition{}).
		WithIndex(&v1alpha1.NVMePartition{}, "spec.parentDeviceSerialNumber", volume.DriveOfPartition).
		WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				err := c.List(ctx, l, opts...)
				if partitions, ok := l.(*v1alpha1.NVMePartitionList); ok {
					w.read += len(partitions.Items)
				}
				return err
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return w.counted("create", o, func() error { return c.Create(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return w.counted("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return w.counted("delete", o, func() error { return c.Delete(ctx, o, opts...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return w.counted("patch "+sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
			},
		}).Build()
	r, err := New(Config{Client: c, NodeName: node, Hardware: w, Media: w, Tables: w, Ready: func() bool { return w.started },
		Strangers: func() ([]string, bool) { return w.audited, w.audited != nil }, Unseen: func() string { return w.unseen },
		TCPPort: 4420, RDMAPort: 4421, Delay: func() time.Duration { return 45 * time.Second }, Now: func() time.Time { return w.clock }})
	if err != nil {
		t.Fatal(err)
	}
	w.Reporter = r
	return w
}

func drive(serial string, minor uint32) inventory.Drive {
	name := "nvme" + strings.ToLower(serial) + "n1"
	return inventory.Drive{Serial: serial, Model: "M", PCIAddress: "0000:00:0" + string(rune('0'+minor)) + ".0", NUMANode: 1,
		State: inventory.StateLive, Name: name, Path: "/dev/" + name, Dev: inventory.DevNum{Major: 259, Minor: minor}, SizeBytes: 1 << 30, BlockBytes: 512}
}

func tcp(addr string) inventory.Portal {
	return inventory.Portal{Fabric: inventory.FabricTCP, Address: netip.MustParseAddr(addr), Interface: "eth0", NUMANode: -1}
}

func rdma(addr string) inventory.Portal {
	return inventory.Portal{Fabric: inventory.FabricRoCEv2, Address: netip.MustParseAddr(addr), Interface: "eth0", Device: "rxe0", Port: 1, SpeedMbps: 2500, NUMANode: 0}
}

// look reconciles and returns the writes it took.
func (w *world) look(t *testing.T) []string {
	t.Helper()
	w.writes = nil
	res, err := w.Reconcile(t.Context(), w.request())
	if err != nil {
		t.Fatal(err)
	}
	if res.RequeueAfter != 45*time.Second {
		t.Errorf("next look after %s", res.RequeueAfter)
	}
	return w.writes
}

// claim binds a claim to the drive, as distort-manager does.
func (w *world) claim(serial string) {
	d := &v1alpha1.NVMeDevice{ObjectMeta: metav1.ObjectMeta{Name: identity.DeviceName(node, serial)}}
	if err := w.Client.Get(context.Background(), client.ObjectKeyFromObject(d), d); err != nil {
		panic(err)
	}
	d.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: "n", Name: "c", UID: "u"}
	if err := w.Client.Status().Update(context.Background(), d); err != nil {
		panic(err)
	}
}

func (w *world) device(t *testing.T, serial string) *v1alpha1.NVMeDevice {
	t.Helper()
	d := &v1alpha1.NVMeDevice{}
	if err := w.Client.Get(t.Context(), types.NamespacedName{Name: identity.DeviceName(node, serial)}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (w *world) node(t *testing.T) *v1alpha1.RDMAStorageNode {
	t.Helper()
	n := &v1alpha1.RDMAStorageNode{}
	if err := w.Client.Get(t.Context(), types.NamespacedName{Name: node}, n); err != nil {
		t.Fatal(err)
	}
	return n
}

func want(t *testing.T, conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string) {
	t.Helper()
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
		t.Errorf("condition %s = %+v; want %s %s with %q", kind, c, status, reason, message)
	}
}

func TestDrivesBecomeDevices(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	numa := int32(1)
	a := w.device(t, "A")
	if diff := cmp.Diff(v1alpha1.NVMeDeviceSpec{NodeName: node, PCIAddress: "0000:00:01.0", SerialNumber: "A", Model: "M",
		TotalCapacity: capacity.Allocatable(1 << 30), NUMANode: &numa}, a.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	want(t, a.Status.Conditions, v1alpha1.ConditionHardwareAvailable, metav1.ConditionTrue, v1alpha1.ReasonDiscovered, "")
	want(t, a.Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonBlank, "blank")
	want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, "ours")
}

func TestIdleNodeWritesNothingButItsStatusEveryFiveMinutes(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	for range 5 {
		w.clock = w.clock.Add(45 * time.Second)
		if got := w.look(t); len(got) != 0 {
			t.Fatalf("idle writes: %v", got)
		}
	}
	w.clock = w.clock.Add(2 * time.Minute)
	if diff := cmp.Diff([]string{"patch status " + node}, w.look(t)); diff != "" {
		t.Errorf("writes after five minutes (-want +got):\n%s", diff)
	}
}

func TestConditionSaysWhyADriveIsNotUsable(t *testing.T) {
	problem := inventory.Problem{Source: inventory.SourceNVMe, Subject: "nvme0", Serial: "A", Message: "the controller has no namespace 1"}
	tests := map[string]struct {
		change  func(*world)
		kind    string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"somebody else's filesystem": {
			func(w *world) { w.found["A"] = media.Finding{Verdict: media.Foreign, Message: "xfs at 0x0"} },
			v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonForeignSignature, "xfs"},
		"damaged table": {
			func(w *world) {
				w.found["A"] = media.Finding{Verdict: media.Damaged, Message: "primary table is damaged"}
			},
			v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonForeignSignature, "damaged"},
		"cannot be read": {
			func(w *world) {
				w.found["A"] = media.Finding{Verdict: media.Unreadable, Message: "I/O error", Err: errors.New("x")}
			},
			v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed, "I/O error"},
		"mounted": {
			func(w *world) {
				w.uses["nvmean1"] = []inventory.Use{{Device: "nvmean1p1", Kind: inventory.UsedByMount, Detail: "at /data"}}
			},
			v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonInUse, "/data"},
		"use cannot be told": {
			func(w *world) { w.usesErr = errors.New("no mountinfo") },
			v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed, "no mountinfo"},
		"gone from a complete scan": {
			func(w *world) { w.claim("A"); w.scan.Drives = w.scan.Drives[1:] },
			v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNotFound, "did not see"},
		"gone from a scan that is not complete": {
			func(w *world) {
				w.scan = inventory.Scan{Drives: w.scan.Drives[1:], Problems: []inventory.Problem{{Source: inventory.SourcePCI, Subject: "0000:00:06.0", Message: "no driver"}}}
			},
			v1alpha1.ConditionHardwareAvailable, metav1.ConditionUnknown, v1alpha1.ReasonScanDegraded, "0000:00:06.0"},
		"no namespace": {
			func(w *world) { w.scan.Drives, w.scan.Problems = w.scan.Drives[1:], []inventory.Problem{problem} },
			v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoNamespace, "no namespace 1"},
		"controller is not live": {
			func(w *world) { w.scan.Drives[0].State = "resetting" },
			v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoNamespace, "resetting"},
		"read-only": {
			func(w *world) { w.scan.Drives[0].ReadOnly = true },
			v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNoNamespace, "read-only"},
		"serial number is not unique": {
			func(w *world) {
				w.scan.Drives = append(w.scan.Drives, drive("A", 3))
				w.scan.Problems = []inventory.Problem{{Serial: "A", Message: "0000:00:01.0 and 0000:00:03.0"}}
			},
			v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonDuplicateSerial, "0000:00:03.0"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.look(t)
			tc.change(w)
			w.clock = w.clock.Add(time.Minute)
			w.look(t)
			want(t, w.device(t, "A").Status.Conditions, tc.kind, tc.status, tc.reason, tc.message)
			if w.usesErr == nil {
				want(t, w.device(t, "B").Status.Conditions, v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonOwnLabel, "")
			}
			if got := w.look(t); len(got) != 0 {
				t.Errorf("the second look writes %v", got)
			}
		})
	}
}

func TestDriveInUseIsNotInventory(t *testing.T) {
	w := newWorld(t)
	w.uses["nvmean1"] = []inventory.Use{{Device: "nvmean1", Kind: inventory.UsedByMount, Detail: "at /"}}
	for _, write := range w.look(t) {
		if strings.Contains(write, identity.DeviceName(node, "A")) {
			t.Errorf("an object was made for a mounted drive: %s", write)
		}
	}
	if slices.Contains(w.probed, "A") {
		t.Error("a mounted drive was probed")
	}
}

func TestMovedDriveKeepsItsObject(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	w.scan.Drives[0].PCIAddress = "0000:09:00.0"
	if diff := cmp.Diff([]string{"patch " + identity.DeviceName(node, "A")}, w.look(t)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := w.device(t, "A").Spec.PCIAddress; got != "0000:09:00.0" {
		t.Errorf("PCI address = %s", got)
	}
}

func TestReporterLeavesTheManagersFieldsAlone(t *testing.T) {
	free := int64(7)
	claimed := &v1alpha1.NVMeDevice{ObjectMeta: metav1.ObjectMeta{Name: identity.DeviceName(node, "A")},
		Spec: v1alpha1.NVMeDeviceSpec{NodeName: node, SerialNumber: "A", PCIAddress: "0000:00:01.0", TotalCapacity: 1},
		Status: v1alpha1.NVMeDeviceStatus{State: v1alpha1.DeviceClaimed, FreeCapacity: &free, ActiveBackend: v1alpha1.ActiveBackendKernel,
			ClaimRef: &v1alpha1.ObjectReference{Namespace: "n", Name: "c", UID: "u"}}}
	w := newWorld(t, claimed)
	w.look(t)
	got := w.device(t, "A").Status
	got.Conditions, got.LargestFreeExtent = nil, 0 // the reporter's own
	if diff := cmp.Diff(claimed.Status, got); diff != "" {
		t.Errorf("status (-before +after):\n%s", diff)
	}
	w.clock = w.clock.Add(time.Minute)
	w.look(t)
	if got := w.node(t).Status.TotalCapacity; got != capacity.Allocatable(1<<30) {
		t.Errorf("claimed capacity of the node = %d", got)
	}
}

func TestDrivesOfOtherNodesAreNotTouched(t *testing.T) {
	other := &v1alpha1.NVMeDevice{ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: v1alpha1.NVMeDeviceSpec{NodeName: "storage-2", SerialNumber: "C", PCIAddress: "0000:00:01.0"}}
	w := newWorld(t, other)
	for _, write := range w.look(t) {
		if strings.HasSuffix(write, " other") {
			t.Errorf("wrote %s", write)
		}
	}
}

func TestMediumIsProbedNoMoreOftenThanNeeded(t *testing.T) {
	w := newWorld(t)
	for range 8 { // four minutes
		w.look(t)
		w.look(t) // a change elsewhere woke us
		w.clock = w.clock.Add(30 * time.Second)
	}
	count := map[string]int{}
	for _, s := range w.probed {
		count[s]++
	}
	if diff := cmp.Diff(map[string]int{"A": 8, "B": 1}, count); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
	// Another drive behind the same serial number is looked at at once.
	w.scan.Drives[1].Dev.Minor = 99
	w.look(t)
	if got := w.probed[len(w.probed)-1]; got != "B" {
		t.Errorf("last probe was of %s", got)
	}
}

func TestNodePortals(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	zero := int32(0)
	tcpPortal := v1alpha1.NodePortal{Portal: v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}, Fabric: v1alpha1.FabricTCP, Device: "eth0"}
	rdmaPortal := v1alpha1.NodePortal{Portal: v1alpha1.Portal{Transport: v1alpha1.TransportRDMA, Address: "10.0.0.1", Port: 4421},
		Fabric: v1alpha1.FabricRoCEv2, Device: "rxe0", LinkSpeed: 2500, NUMANode: &zero}
	if diff := cmp.Diff([]v1alpha1.NodePortal{tcpPortal, rdmaPortal}, w.node(t).Spec.Portals); diff != "" {
		t.Fatalf("portals (-want +got):\n%s", diff)
	}
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, "")

	t.Run("are kept when a scan is not complete", func(t *testing.T) {
		w.portals = inventory.PortalScan{Problems: []inventory.Problem{{Source: inventory.SourceRDMA, Subject: "rxe0/1", Message: "state cannot be read"}}}
		w.look(t)
		if got := len(w.node(t).Spec.Portals); got != 2 {
			t.Errorf("%d portals", got)
		}
		want(t, w.node(t).Status.Conditions, v1alpha1.ConditionRDMAInventoryReady, metav1.ConditionFalse, v1alpha1.ReasonScanDegraded, "rxe0/1")
		want(t, w.node(t).Status.Conditions, v1alpha1.ConditionNVMeInventoryReady, metav1.ConditionTrue, v1alpha1.ReasonScanComplete, "")
	})
	t.Run("go when a complete scan has none", func(t *testing.T) {
		w.portals = inventory.PortalScan{Complete: true}
		w.look(t)
		if got := len(w.node(t).Spec.Portals); got != 0 {
			t.Errorf("%d portals", got)
		}
		want(t, w.node(t).Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoUsablePortal, "")
	})
}

func TestNodeIsReadyOnlyAfterTheFirstLookAtAllTargets(t *testing.T) {
	w := newWorld(t)
	w.started = false
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAgentStarting, "")
	w.started = true
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, "")
}

func TestReadyComesBackAfterTheManagerSaidThatWeAreGone(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	n := w.node(t)
	meta.SetStatusCondition(&n.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeartbeatExpired})
	if err := w.Client.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.look(t)
	want(t, w.node(t).Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, "")
}

func TestExportsAreCounted(t *testing.T) {
	exported := func(name, on string, status metav1.ConditionStatus) *v1alpha1.NVMePartition {
		p := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		p.Spec.NodeName = on
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionExported, Status: status}}
		return p
	}
	w := newWorld(t, exported("a", node, metav1.ConditionTrue), exported("b", node, metav1.ConditionFalse), exported("c", "other", metav1.ConditionTrue))
	w.look(t)
	if got := w.node(t).Status.ActiveExports; got != 1 {
		t.Errorf("active exports = %d, want 1", got)
	}
}

func TestConflictIsTriedAgainWithoutAnError(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	w.scan.Drives[0].PCIAddress = "0000:09:00.0"
	w.fail = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nvmedevices").GroupResource(), "x", errors.New("changed"))
	res, err := w.Reconcile(t.Context(), w.request())
	if err != nil || res.RequeueAfter != time.Second {
		t.Errorf("Reconcile = %+v, %v", res, err)
	}
}

func TestOneDrivesFailureDoesNotKeepTheOthersBack(t *testing.T) {
	w := newWorld(t)
	w.fail = errors.New("refused")
	if _, err := w.Reconcile(t.Context(), w.request()); err == nil || !strings.Contains(err.Error(), `"A"`) {
		t.Errorf("error = %v, want one that names the drive", err)
	}
	w.device(t, "B")
	w.node(t)
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*Config){
		"no client":  func(c *Config) { c.Client = nil },
		"no node":    func(c *Config) { c.NodeName = "" },
		"same ports": func(c *Config) { c.TCPPort = c.RDMAPort },
		"port 0":     func(c *Config) { c.TCPPort = 0 },
	} {
		c := w.Config
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: New succeeded", name)
		}
	}
}
