package app_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const elsewhere = v1alpha1.PoolGUID("4711")

// zvolExported is a world with one exported Volume.
func zvolExported(t *testing.T, change ...func(*v1alpha1.Volume)) (*world, *agent, *v1alpha1.Volume) {
	t.Helper()
	w := newWorld(t)
	withPool(w)
	v := zvolOf(w)
	for _, c := range change {
		c(v)
	}
	w.create(v)
	a := w.boot()
	a.mustSettle()
	w.reload(v)
	return w, a, v
}

// storageNode reads the node's StorageNode.
func (w *world) storageNode() *v1alpha1.StorageNode {
	w.t.Helper()
	n := w.node.StorageNode()
	w.reload(n)
	return n
}

// zfs runs a program on the node as somebody else would.
func (w *world) zfs(args ...string) {
	w.t.Helper()
	_, err := w.node.Pools.Runner().Run(w.t.Context(), command.New("zfs", args...))
	w.must(err)
}

// changing are the programs among the calls since from that change a pool.
func (w *world) changing(from int) []string {
	var out []string
	for _, c := range w.node.Pools.Runner().Calls()[from:] {
		if c.Name == "zfs" && c.Args[0] != "get" {
			out = append(out, c.String())
		}
	}
	return out
}

func (w *world) calls() int { return len(w.node.Pools.Runner().Calls()) }

func TestVolumeIsMadeExportedAndWrittenOnce(t *testing.T) {
	w := newWorld(t)
	withPool(w)
	a := w.boot()
	a.mustSettle()
	v := zvolOf(w)
	w.create(v)
	got := a.written(a.mustSettle)
	if diff := cmp.Diff(map[string]int{"Volume/status": 1, "StorageNode/status": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.reload(v)
	z := w.node.Pools.Zvols()[0]
	portals := []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}}
	want := v1alpha1.VolumeStatus{
		State: v1alpha1.VolumeReadyToPublish, TargetNQN: volumetest.NQN(v), PortalHost: "10.0.0.1", PortalPort: 4420,
		DeviceGUID: identity.NamespaceUUID(string(v.UID)), Portals: portals,
		DatasetPath: "tank/distort/block/" + identity.ExternalID(string(v.UID)), DatasetGUID: z.GUID, ActualCapacity: sliceSize,
		AccountedGeneration: v.Status.AccountedGeneration,
	}
	status := v.Status
	conditions := map[string]string{}
	for _, c := range status.Conditions {
		conditions[c.Type] = string(c.Status) + "/" + c.Reason
	}
	status.Conditions = nil
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"Placed": "True/Placed", "Provisioned": "True/Carved", "Exported": "True/Exported"}, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if !w.contained(v) {
		t.Errorf("accounted with generation %d; published is %+v", v.Status.AccountedGeneration, w.storageNode().Status.Pools)
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("an idle agent wrote %v", got)
	}
}

func TestVolumeOverRDMA(t *testing.T) {
	_, _, v := zvolExported(t, func(v *v1alpha1.Volume) { v.Spec.Transport = v1alpha1.ProtocolNVMeRDMA })
	want := []v1alpha1.Portal{{Transport: v1alpha1.TransportRDMA, Address: "10.0.1.1", Port: 4421}}
	if diff := cmp.Diff(want, v.Status.Portals); diff != "" {
		t.Errorf("portals (-want +got):\n%s", diff)
	}
}

func TestVolumeIsAttachedAndFenced(t *testing.T) {
	w, a, v := zvolExported(t)
	at := w.node.Attachment(v, consumer)
	at.Finalizers = append(at.Finalizers, keep)
	w.create(at)
	a.mustSettle()
	host, err := w.node.Kernel.Connect(at.Spec.HostNQN, volumetest.NQN(v), listener())
	if err != nil {
		t.Fatal(err)
	}
	if size, err := host.Size(identity.NSID); err != nil || size != sliceSize {
		t.Errorf("the host sees %d bytes, %v", size, err)
	}
	if _, err := w.node.Kernel.Connect(identity.HostNQN("other"), volumetest.NQN(v), listener()); err == nil {
		t.Error("another host can connect")
	}
	w.delete(v)
	_ = a.settle()
	if w.reload(v); !strings.Contains(message(v.Status.Conditions, v1alpha1.ConditionExported), at.Name) || v.Status.State != v1alpha1.VolumeDeleting {
		t.Errorf("a volume with an attachment is %s: %s", v.Status.State, message(v.Status.Conditions, v1alpha1.ConditionExported))
	}
	w.delete(at)
	_ = a.settle()
	w.reload(at)
	if at.Status.Revocation == nil || condition(at.Status.Conditions, v1alpha1.ConditionAccessReady) != "False/Revoked" {
		t.Errorf("no evidence: %+v", at.Status)
	}
	if _, err := w.node.Kernel.Connect(at.Spec.HostNQN, volumetest.NQN(v), listener()); err == nil {
		t.Error("the fenced host can connect")
	}
}

func TestVolumeDeletionLeavesNothing(t *testing.T) {
	w, a, v := zvolExported(t)
	w.delete(v)
	if diff := cmp.Diff(map[string]int{"Volume": 1, "StorageNode/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if left := zvolGone(w); len(left) > 0 {
		t.Error(left)
	}
}

func TestRetainedVolumeKeepsItsData(t *testing.T) {
	w, a, v := zvolExported(t, func(v *v1alpha1.Volume) { v.Spec.DeletionPolicy = v1alpha1.DeletionRetain })
	w.delete(v)
	a.mustSettle()
	if w.reload(v) || len(w.node.Pools.Zvols()) != 1 || len(w.node.Exports(t)) != 0 {
		t.Errorf("left are %v", zvolsLeft(w))
	}
}

// A node that is not the pool's owner makes, exports and destroys nothing.
func TestOnlyTheOwnerTouchesAPool(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*world)
		provision string
		node      string
	}{
		"the pool was imported elsewhere": {func(w *world) { w.node.Pools.Take("tank") }, "False/PoolUnavailable", "False/PoolIdentityMismatch"},
		"another pool has its name": {func(w *world) {
			w.node.Pools.Take("tank")
			w.node.Pools.Import("tank", string(elsewhere), driveSize)
		}, "False/PoolUnavailable", "False/PoolIdentityMismatch"},
		"a pool that nobody declared": {func(w *world) { w.node.Pools.Import("found", string(elsewhere), driveSize) }, "False/PoolNotOwned", "False/PoolIdentityMismatch"},
		"the pool is suspended":       {func(w *world) { w.node.Pools.SetHealth("tank", "SUSPENDED") }, "False/PoolUnavailable", "False/PoolIdentityMismatch"},
		"the disk was pulled out":     {func(w *world) { w.node.Pools.Pull("tank", true) }, "False/PoolUnavailable", "False/CapacityAccountingFailed"},
		"read-only":                   {func(w *world) { w.node.Pools.SetReadOnly("tank", true) }, "False/PoolUnavailable", "False/CapacityAccountingFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			w, a, old := zvolExported(t)
			c.change(w)
			fresh := w.node.Volume("zvol-2", sliceSize)
			w.create(fresh)
			w.delete(old)
			from := w.calls()
			_ = a.settle()
			w.reload(fresh)
			if got := condition(fresh.Status.Conditions, v1alpha1.ConditionProvisioned); got != c.provision {
				t.Errorf("new volume: Provisioned = %s: %s", got, message(fresh.Status.Conditions, v1alpha1.ConditionProvisioned))
			}
			if !w.reload(old) || condition(old.Status.Conditions, v1alpha1.ConditionExported) != "False/Deleting" {
				t.Errorf("deletion did not wait: %+v", old.Status.Conditions)
			}
			if got := w.changing(from); len(got) > 0 {
				t.Errorf("changed the pool: %v", got)
			}
			n := w.storageNode()
			if got := condition(n.Status.Conditions, v1alpha1.ConditionReady); got != c.node || n.Status.Pools[0].Ready {
				t.Errorf("StorageNode: Ready = %s (%s), pools = %+v", got, message(n.Status.Conditions, v1alpha1.ConditionReady), n.Status.Pools)
			}
		})
	}
}

func TestUndeclaredPoolIsNotUsed(t *testing.T) {
	for name, change := range map[string]func(*world){
		"no StorageNode": func(w *world) { w.delete(w.node.StorageNode()) },
		"a StorageNode without the pool's": func(w *world) {
			w.delete(w.node.StorageNode())
			n := w.node.StorageNode()
			n.Spec.AuthoritativePoolGUIDs = nil
			w.create(n)
		},
	} {
		w := newWorld(t)
		withPool(w)
		change(w)
		v := zvolOf(w)
		w.create(v)
		a := w.boot()
		_ = a.settle()
		w.reload(v)
		if got := condition(v.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/PoolNotOwned" || len(w.node.Pools.Zvols()) != 0 {
			t.Errorf("%s: Provisioned = %s, zvols %v", name, got, w.node.Pools.Zvols())
		}
	}
}

func TestVolumeOfAMissingPoolGoesOnlyWhenItIsAbandoned(t *testing.T) {
	w, a, v := zvolExported(t)
	pool := w.node.Pools.Take("tank")
	w.delete(v)
	_ = a.settle()
	if !w.reload(v) {
		t.Fatal("the volume went without its pool")
	}
	before := v.DeepCopy()
	v.Annotations = map[string]string{v1alpha1.AbandonDataAnnotation: string(v.UID)}
	w.must(w.api.Patch(t.Context(), v, client.MergeFrom(before)))
	a.mustSettle()
	if w.reload(v) {
		t.Errorf("the abandoned volume is still there: %s", message(v.Status.Conditions, v1alpha1.ConditionExported))
	}
	w.node.Pools.Give(pool)
	if n := len(w.node.Pools.Zvols()); n != 1 {
		t.Errorf("%d zvols on the pool that came back; nothing of it may be destroyed", n)
	}
	a.mustSettle()
	n := w.storageNode()
	if got := condition(n.Status.Conditions, v1alpha1.ConditionAudited); got != "False/StrangersFound" {
		t.Errorf("Audited = %s: the zvol that nobody asks for is not named", got)
	}
}

func TestLostZvolIsNeverMadeAnew(t *testing.T) {
	for name, lose := range map[string]func(*world, *v1alpha1.Volume){
		"destroyed": func(w *world, v *v1alpha1.Volume) { w.zfs("destroy", v.Status.DatasetPath) },
		"replaced by one that claims to be it": func(w *world, v *v1alpha1.Volume) {
			w.zfs("destroy", v.Status.DatasetPath)
			w.zfs("create", "-V", "64M", "-o", "distort:volume-uid="+string(v.UID), v.Status.DatasetPath)
		},
	} {
		w, _, v := zvolExported(t)
		w.node.Pools.SetOpen(nil)
		lose(w, v)
		from := w.calls()
		a := w.boot()
		_ = a.settle()
		w.reload(v)
		if got := condition(v.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/DataLoss" || v.Status.State != v1alpha1.VolumeError {
			t.Errorf("%s: Provisioned = %s, state %s", name, got, v.Status.State)
		}
		if got := w.changing(from); len(got) > 0 {
			t.Errorf("%s: changed the pool: %v", name, got)
		}
		if got := condition(w.storageNode().Status.Conditions, v1alpha1.ConditionAudited); got != "False/PartsMissing" {
			t.Errorf("%s: Audited = %s", name, got)
		}
	}
}

func TestForeignDatasetIsRefused(t *testing.T) {
	w := newWorld(t)
	withPool(w)
	v := zvolOf(w)
	w.zfs("create", "-p", "-V", "64M", "tank/distort/block/"+identity.ExternalID(string(v.UID)))
	w.create(v)
	a := w.boot()
	_ = a.settle()
	w.reload(v)
	if got := condition(v.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/DatasetRefused" || len(w.node.Exports(t)) != 0 {
		t.Errorf("Provisioned = %s, exports %v", got, w.node.Exports(t))
	}
}

func TestVolumeGrowsUnderItsHost(t *testing.T) {
	w, a, v := zvolExported(t)
	at := w.node.Attachment(v, consumer)
	w.create(at)
	a.mustSettle()
	host, err := w.node.Kernel.Connect(at.Spec.HostNQN, volumetest.NQN(v), listener())
	if err != nil {
		t.Fatal(err)
	}
	free := w.storageNode().Status.Pools[0].FreeBytes
	growZvol(w, 2*sliceSize)
	if diff := cmp.Diff(map[string]int{"Volume/status": 1, "StorageNode/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.reload(v)
	if size, err := host.Size(identity.NSID); err != nil || size != 2*sliceSize || v.Status.ActualCapacity != 2*sliceSize {
		t.Errorf("the host sees %d bytes (%v), status says %d", size, err, v.Status.ActualCapacity)
	}
	if got := condition(v.Status.Conditions, v1alpha1.ConditionResized); got != "True/Resized" {
		t.Errorf("Resized = %s", got)
	}
	if now := w.storageNode().Status.Pools[0].FreeBytes; now > free-sliceSize {
		t.Errorf("published are %d bytes, before %d: the growth is not in the sample", now, free)
	}
	growZvol(w, 8<<30)
	_ = a.settle()
	w.reload(v)
	if got := condition(v.Status.Conditions, v1alpha1.ConditionResized); got != "False/GrowthNoSpace" || v.Status.State != v1alpha1.VolumeReadyToPublish {
		t.Errorf("Resized = %s, state %s: a volume that cannot grow serves as it is", got, v.Status.State)
	}
}

func TestCompressionChangesUnderItsHostInOneWrite(t *testing.T) {
	w, a, v := zvolExported(t)
	at := w.node.Attachment(v, consumer)
	w.create(at)
	a.mustSettle()
	host, err := w.node.Kernel.Connect(at.Spec.HostNQN, volumetest.NQN(v), listener())
	if err != nil {
		t.Fatal(err)
	}
	compressZvol(w, "zstd-3")
	if diff := cmp.Diff(map[string]int{"Volume/status": 1}, a.written(a.mustSettle)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	for _, problem := range compressed("zstd-3")(w) {
		t.Error(problem)
	}
	if !host.Live() {
		t.Error("the host was cut off")
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("an idle agent wrote %v", got)
	}
	// What somebody else has set is put right with the next look.
	w.zfs("set", "compression=off", "tank/distort/block/"+identity.ExternalID(string(v.UID)))
	a.mustSettle()
	if got := w.property("compression", v); got != "zstd-3" {
		t.Errorf("after somebody else has changed it, compression = %s", got)
	}
}

// A pool that does not take the value says so, and the volume serves as it is.
func TestCompressionThatThePoolRefuses(t *testing.T) {
	w, a, v := zvolExported(t, func(v *v1alpha1.Volume) { v.Spec.Compression = "lz4" })
	if v.Status.Compression != "lz4" || condition(v.Status.Conditions, v1alpha1.ConditionModified) != "absent" {
		t.Fatalf("compression %q, Modified %s", v.Status.Compression, condition(v.Status.Conditions, v1alpha1.ConditionModified))
	}
	compressZvol(w, "zstd-99") // the API server would not take it
	if err := a.settle(); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want a terminal one", err)
	}
	w.reload(v)
	if got := condition(v.Status.Conditions, v1alpha1.ConditionModified); got != "False/ModifyRefused" || v.Status.Compression != "lz4" || v.Status.State != v1alpha1.VolumeReadyToPublish {
		t.Errorf("Modified = %s, compression %q, state %s", got, v.Status.Compression, v.Status.State)
	}
	if m := message(v.Status.Conditions, v1alpha1.ConditionModified); !strings.Contains(m, "'compression' must be one of") {
		t.Errorf("message %q", m)
	}
	if got := a.written(func() { _ = a.settle() }); len(got) != 0 {
		t.Errorf("a refusal that lasts was written again: %v", got)
	}
	compressZvol(w, "lz4")
	a.mustSettle()
	w.reload(v)
	if got := condition(v.Status.Conditions, v1alpha1.ConditionModified); got != "True/Modified" {
		t.Errorf("after the withdrawal Modified = %s", got)
	}
}

// While the growth is not in a published sample, the volume does not say that it
// has grown.
func TestGrowthIsToldAfterItsSample(t *testing.T) {
	w, a, v := zvolExported(t)
	growZvol(w, 2*sliceSize)
	a.KillAtWrite(1, false)
	_ = a.settle()
	w.node.Revive()
	if w.reload(v); v.Status.ActualCapacity != sliceSize || w.node.Pools.Zvols()[0].SizeBytes != 2*sliceSize {
		t.Fatalf("status says %d bytes, the zvol has %d", v.Status.ActualCapacity, w.node.Pools.Zvols()[0].SizeBytes)
	}
	b := w.boot()
	if err := b.settle(); err != nil {
		t.Fatal(err)
	}
	if w.reload(v); v.Status.ActualCapacity != 2*sliceSize {
		t.Errorf("status says %d bytes", v.Status.ActualCapacity)
	}
}

func TestUnsupportedVolumesAreRefusedAndLetGo(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Volume){
		"dataset": func(v *v1alpha1.Volume) {
			v.Spec.Type, v.Spec.Transport, v.Spec.FSType = v1alpha1.VolumeFilesystem, v1alpha1.ProtocolNFS, ""
		},
		"import": func(v *v1alpha1.Volume) { v.Spec.Provenance = v1alpha1.ProvenanceImported },
		"copy of a partition": func(v *v1alpha1.Volume) {
			v.Spec.SourceVolume = &v1alpha1.VolumeReference{Kind: v1alpha1.KindNVMePartition, Namespace: "x", Name: "other", UID: volumetest.UID("other")}
		},
	} {
		w := newWorld(t)
		withPool(w)
		v := zvolOf(w)
		change(v)
		w.create(v)
		a := w.boot()
		_ = a.settle()
		w.reload(v)
		if got := condition(v.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/Unsupported" || v.Status.State != v1alpha1.VolumeError {
			t.Errorf("%s: Provisioned = %s, state %s", name, got, v.Status.State)
		}
		w.delete(v)
		if err := a.settle(); err != nil || w.reload(v) || len(w.node.Pools.Zvols()) != 0 {
			t.Errorf("%s: deletion: %v", name, err)
		}
	}
}

func TestVolumeSurvivesAReboot(t *testing.T) {
	w, a, v := zvolExported(t)
	w.create(w.node.Attachment(v, consumer))
	a.mustSettle()
	before, _ := w.state(v)
	w.create(w.node.Volume("aaa", sliceSize)) // made later, and a device before this one
	a.mustSettle()
	w.node.Reboot()
	b := w.boot()
	if got := b.written(b.mustSettle); got["Volume/status"] != 0 {
		t.Errorf("wrote %v", got)
	}
	after, ok := w.state(v)
	if !ok || after.Namespaces[0].UUID != before.Namespaces[0].UUID || after.Serial != before.Serial || !slices.Equal(after.AllowedHosts, before.AllowedHosts) {
		t.Errorf("export = %+v, before %+v", after, before)
	}
	if after.Namespaces[0].DevicePath == before.Namespaces[0].DevicePath {
		t.Error("the device kept its name: the test proves nothing")
	}
}

func TestStorageNodeSaysWhyItIsNotReady(t *testing.T) {
	node := func(w *world) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}} }
	for name, c := range map[string]struct {
		change func(*world)
		want   string
		says   string
	}{
		"all is well":  {nothing, "True/ObservationSucceeded", ""},
		"no such node": {func(w *world) { w.delete(node(w)) }, "False/NodeNotFound", nodeName},
		"node not ready": {func(w *world) {
			n := node(w)
			w.reload(n)
			before := n.DeepCopy()
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
			w.must(w.api.Status().Patch(w.t.Context(), n, client.MergeFrom(before)))
		}, "False/NodeNotReady", ""},
		"disabled": {func(w *world) { w.redeclare(func(n *v1alpha1.StorageNode) { n.Spec.Enabled = new(bool) }) }, "False/Disabled", ""},
		"no 64-bit number": {func(w *world) {
			w.redeclare(func(n *v1alpha1.StorageNode) {
				n.Spec.AuthoritativePoolGUIDs = []v1alpha1.PoolGUID{"99999999999999999999"}
			})
		}, "False/InvalidAuthoritativeIdentity", "99999999999999999999"},
		"no pools": {func(w *world) {
			w.redeclare(func(n *v1alpha1.StorageNode) { n.Spec.AuthoritativePoolGUIDs = nil })
		}, "True/ObservationSucceeded", "no pools are declared"},
		"no address":   {func(w *world) { w.node.SetPortals() }, "False/EndpointInvalid", ""},
		"pool missing": {func(w *world) { w.node.Pools.Take("tank") }, "False/PoolIdentityMismatch", volumetest.PoolGUID},
		"degraded":     {func(w *world) { w.node.Pools.SetHealth("tank", "DEGRADED") }, "True/ObservationSucceeded", ""},
		"suspended":    {func(w *world) { w.node.Pools.SetHealth("tank", "SUSPENDED") }, "False/PoolIdentityMismatch", "SUSPENDED"},
		"unreadable":   {func(w *world) { w.node.Pools.Pull("tank", true) }, "False/CapacityAccountingFailed", "/dev/tank-disk"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			withPool(w)
			c.change(w)
			w.boot().mustSettle()
			n := w.storageNode()
			got, says := condition(n.Status.Conditions, v1alpha1.ConditionReady), message(n.Status.Conditions, v1alpha1.ConditionReady)
			if got != c.want || !strings.Contains(says, c.says) {
				t.Errorf("Ready = %s: %q, want %s: %q", got, says, c.want, c.says)
			}
			for _, p := range n.Status.Pools {
				if p.Ready != strings.HasPrefix(c.want, "True") {
					t.Errorf("pool = %+v", p)
				}
			}
			if n.Status.ObservedGeneration != n.Generation || n.Status.LastObservedTime == nil {
				t.Errorf("status = %+v", n.Status)
			}
		})
	}
}

// redeclare replaces the StorageNode, whose identity never changes.
func (w *world) redeclare(change func(*v1alpha1.StorageNode)) {
	w.t.Helper()
	w.delete(w.node.StorageNode())
	n := w.node.StorageNode()
	n.UID = "another"
	change(n)
	w.create(n)
}

func TestStorageNodeTellsItsPoolsAndAddresses(t *testing.T) {
	w, _, _ := zvolExported(t)
	st := w.storageNode().Status
	if diff := cmp.Diff([]v1alpha1.Endpoint{
		{Protocol: v1alpha1.ProtocolNVMeTCP, Host: "10.0.0.1", Port: 4420}, {Protocol: v1alpha1.ProtocolNVMeRDMA, Host: "10.0.1.1", Port: 4421},
	}, st.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	p := st.Pools[0]
	taken, err := capacity.Zvol(sliceSize, 0)
	if err != nil {
		t.Fatal(err)
	}
	if p.GUID != volumetest.PoolGUID || p.Name != "tank" || !p.Ready || p.FreeBytes > driveSize-taken || p.FreeBytes < driveSize-2*taken || p.FreeBytes%capacity.Unit != 0 {
		t.Errorf("pool = %+v", p)
	}
	if diff := cmp.Diff([]v1alpha1.DomainName{v1alpha1.DefaultNetworkDomain}, st.ReachableFrom); diff != "" {
		t.Errorf("reachableFrom (-want +got):\n%s", diff)
	}
}

// Generations only grow, whatever becomes of the agent, and what a volume records
// is recorded once.
func TestGenerationsOnlyGrow(t *testing.T) {
	w, a, v := zvolExported(t)
	recorded := v.Status.AccountedGeneration
	published := w.storageNode().Status.Pools[0].SampleGeneration
	for range 5 { // looks that publish nothing
		w.must(a.pools.Publish(t.Context()))
	}
	next, ok := a.pools.Next(volumetest.PoolGUID)
	if !ok || next <= published+5 {
		t.Errorf("next = %d, %v after looks up to %d: a look that has begun may miss what is made now", next, ok, published+5)
	}
	b := w.boot()
	if n, ok := b.pools.Next(volumetest.PoolGUID); ok {
		t.Errorf("an agent that has published nothing answers generation %d", n)
	}
	b.mustSettle()
	now := w.storageNode().Status.Pools[0].SampleGeneration
	if w.reload(v); now <= published || v.Status.AccountedGeneration != recorded {
		t.Errorf("published %d, then %d; recorded %d, then %d", published, now, recorded, v.Status.AccountedGeneration)
	}
}

func TestZvolOpenedBySomebodyIsNotExportedNorDestroyed(t *testing.T) {
	w, _, v := zvolExported(t)
	path := w.node.Pools.Zvols()[0].Path
	w.node.Use(strings.TrimPrefix(path, "/dev/"), "/mnt")
	b := w.boot()
	_ = b.settle()
	w.reload(v)
	if got := condition(v.Status.Conditions, v1alpha1.ConditionExported); got != "False/ExportFailed" || !strings.Contains(message(v.Status.Conditions, v1alpha1.ConditionExported), "/mnt") {
		t.Errorf("Exported = %s: %s", got, message(v.Status.Conditions, v1alpha1.ConditionExported))
	}
}

func TestVerificationSeesAZvolThatIsNotAsItShouldBe(t *testing.T) {
	w, a, v := zvolExported(t)
	verify := func() error {
		found, err := a.verifier().Verify(t.Context(), w.slices())
		w.must(err)
		if len(found.Broken) == 0 {
			return nil
		}
		return errors.New(fmt.Sprint(found.Broken[v.UID]))
	}
	if err := verify(); err != nil {
		t.Errorf("all is well: %v", err)
	}
	w.must(w.node.Kernel.WriteFile("subsystems/"+volumetest.NQN(v)+"/namespaces/1/enable", []byte("0")))
	if err := verify(); err == nil {
		t.Error("a namespace that is off was not seen")
	}
	a.mustSettle()
	w.node.Pools.Take("tank")
	if err := verify(); err == nil || !strings.Contains(err.Error(), "not imported") {
		t.Errorf("a pool that is gone: %v", err)
	}
}
