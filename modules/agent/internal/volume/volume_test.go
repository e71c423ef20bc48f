package volume_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
)

const sliceSize = 16 << 20

// counted counts what is asked of the host.
type counted struct {
	*volumetest.Node
	calls map[string]int
}

func count(n *volumetest.Node) *counted { return &counted{Node: n, calls: map[string]int{}} }

func (c *counted) Scan(ctx context.Context) inventory.Scan {
	c.calls["scan"]++
	return c.Node.Scan(ctx)
}

func (c *counted) Partitions(device string) ([]inventory.Partition, error) {
	c.calls["partitions"]++
	return c.Node.Partitions(device)
}

func (c *counted) Portals(ctx context.Context) inventory.PortalScan {
	c.calls["portals"]++
	return c.Node.Portals(ctx)
}

// countedTarget counts bulk reads.
type countedTarget struct {
	nvmeof.Target
	calls map[string]int
}

func (c *countedTarget) List(ctx context.Context) ([]nvmeof.State, error) {
	c.calls["list"]++
	return c.Target.List(ctx)
}

// countedManager counts looks at the table.
type countedManager struct {
	carve.VolumeManager
	calls map[string]int
}

func (c *countedManager) List(ctx context.Context, d inventory.Drive) ([]carve.Volume, error) {
	c.calls["table"]++
	return c.VolumeManager.List(ctx, d)
}

func newAPI(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.NVMeVolumeAttachment{}, "spec.volumeRef.uid", volume.VolumeOfAttachment).Build()
}

func TestVerificationIsOneReadOfEachSourceForAnyNumberOfVolumes(t *testing.T) {
	node := volumetest.NewNode("storage-0", "S1", 1<<30)
	host := count(node)
	var partitions []v1alpha1.NVMePartition
	var objects []client.Object
	for i := range 12 {
		p := node.Partition(fmt.Sprintf("pvc-%d", i), sliceSize)
		partitions, objects = append(partitions, *p), append(objects, p)
	}
	process := node.Boot(t, nil)
	target := &countedTarget{process.Target, host.calls}
	locator := volume.NewLocator(host, process.Manager)
	exporter := volume.NewExporter(newAPI(t, objects...), export.NewBackends(export.NewKernel(target)), volume.NewHostPortals(host, 4420, 4421), host)
	for i := range partitions {
		d, err := locator.Drive(t.Context(), "S1")
		if err != nil {
			t.Fatal(err)
		}
		slice, err := locator.Make(t.Context(), &partitions[i], d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := exporter.Ensure(t.Context(), &partitions[i], slice.DevicePath); err != nil {
			t.Fatal(err)
		}
	}
	clear(host.calls)
	var all []v1alpha1.Slice
	for i := range partitions {
		all = append(all, &partitions[i])
	}
	v, err := volume.NewVerifier(exporter, locator).Verify(t.Context(), all)
	if err != nil || len(v.Broken) != 0 || len(v.Strangers) != 0 {
		t.Errorf("verification = %+v, %v", v, err)
	}
	if diff := cmp.Diff(map[string]int{"list": 1, "scan": 1, "partitions": 1, "portals": 1}, host.calls); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

func TestFindTakesNamesFromTheKernelAndReadsTheTableOnce(t *testing.T) {
	node := volumetest.NewNode("storage-0", "S1", 1<<30)
	host := count(node)
	p := node.Partition("pvc-1", sliceSize)
	first := volume.NewLocator(host, node.Boot(t, nil).Manager)
	d, err := first.Drive(t.Context(), "S1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Find(t.Context(), p, d); !errors.Is(err, volume.ErrSliceMissing) {
		t.Errorf("on a blank drive: %v, want ErrSliceMissing", err)
	}
	made, err := first.Make(t.Context(), p, d)
	if err != nil {
		t.Fatal(err)
	}
	again := volume.NewLocator(host, &countedManager{node.Boot(t, nil).Manager, host.calls})
	clear(host.calls)
	for range 3 {
		got, err := again.Find(t.Context(), p, d)
		if err != nil || got.DevicePath != made.DevicePath || got.UUID != identity.PartitionUUID(string(p.UID)) {
			t.Errorf("found %+v, %v", got, err)
		}
	}
	if host.calls["table"] != 1 {
		t.Errorf("the table was read %d times, want once", host.calls["table"])
	}
	node.Drive.SetGPT(identity.DiskGUID("S1"), 2048, nil)
	node.Drive.Reread()
	if _, err := again.Find(t.Context(), p, d); !errors.Is(err, volume.ErrSliceMissing) {
		t.Errorf("after the slice went: %v, want ErrSliceMissing", err)
	}
}

func TestFindRevealsASliceThatTheKernelDoesNotKnow(t *testing.T) {
	node := volumetest.NewNode("storage-0", "S1", 1<<30)
	p := node.Partition("pvc-1", sliceSize)
	dying := node.Boot(t, nil)
	locator := volume.NewLocator(node, dying.Manager)
	d, err := locator.Drive(t.Context(), "S1")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; len(node.Slices()) == 0; n++ {
		node.Drive.Runner().KillAfter(n)
		_, _ = locator.Make(t.Context(), p, d)
		node.Revive()
		dying = node.Boot(t, nil)
		locator = volume.NewLocator(node, dying.Manager)
	}
	parts, err := node.Partitions(d.Name)
	if err != nil || len(parts) != 0 {
		t.Fatalf("the kernel knows %v (%v): the kill came too late for this test", parts, err)
	}
	got, err := locator.Find(t.Context(), p, d)
	if err != nil || got.DevicePath == "" || got.SizeBytes != sliceSize {
		t.Errorf("found %+v, %v; want it with a device", got, err)
	}
}

func TestDriveIsRefusedWhileItDoesNotWork(t *testing.T) {
	node := volumetest.NewNode("storage-0", "S1", 1<<30)
	locator := volume.NewLocator(node, node.Boot(t, nil).Manager)
	if _, err := locator.Drive(t.Context(), "S2"); !errors.Is(err, volume.ErrDriveMissing) || !strings.Contains(err.Error(), "S2") {
		t.Errorf("another serial: %v", err)
	}
	dead := volume.NewLocator(deadDrives{node}, node.Boot(t, nil).Manager)
	if _, err := dead.Drive(t.Context(), "S1"); !errors.Is(err, volume.ErrDriveMissing) || !strings.Contains(err.Error(), "resetting") {
		t.Errorf("a controller that resets: %v", err)
	}
}

type deadDrives struct{ *volumetest.Node }

func (d deadDrives) Scan(ctx context.Context) inventory.Scan {
	scan := d.Node.Scan(ctx)
	for i := range scan.Drives {
		scan.Drives[i].State = "resetting"
	}
	return scan
}

type portalSource struct{ scan inventory.PortalScan }

func (s *portalSource) Portals(context.Context) inventory.PortalScan { return s.scan }

func TestPortalsOfAnIncompleteScanKeepWhatWasThere(t *testing.T) {
	tcp := func(a string) inventory.Portal {
		return inventory.Portal{Fabric: inventory.FabricTCP, Address: netip.MustParseAddr(a)}
	}
	portal := func(a string) v1alpha1.Portal {
		return v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: a, Port: 4420}
	}
	source := &portalSource{}
	portals := volume.NewHostPortals(source, 4420, 4421)
	for _, step := range []struct {
		name string
		scan inventory.PortalScan
		want []v1alpha1.Portal
		fail bool
	}{
		{name: "nothing could be read", scan: inventory.PortalScan{Problems: []inventory.Problem{{Subject: "eth0", Message: "no"}}}, fail: true},
		{name: "there is none", scan: inventory.PortalScan{Complete: true}},
		{
			name: "two", scan: inventory.PortalScan{Complete: true, Portals: []inventory.Portal{tcp("10.0.0.2"), tcp("10.0.0.1")}},
			want: []v1alpha1.Portal{portal("10.0.0.1"), portal("10.0.0.2")},
		},
		{
			name: "a scan with errors sees one", scan: inventory.PortalScan{Portals: []inventory.Portal{tcp("10.0.0.2")}},
			want: []v1alpha1.Portal{portal("10.0.0.1"), portal("10.0.0.2")},
		},
		{
			name: "a complete scan sees one", scan: inventory.PortalScan{Complete: true, Portals: []inventory.Portal{tcp("10.0.0.2")}},
			want: []v1alpha1.Portal{portal("10.0.0.2")},
		},
	} {
		source.scan = step.scan
		got, err := portals.On(t.Context(), v1alpha1.TransportTCP)
		if (err != nil) != step.fail {
			t.Errorf("%s: error %v", step.name, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestAdmission(t *testing.T) {
	node := volumetest.NewNode("storage-0", "S1", 1<<30)
	shared := func(p *v1alpha1.NVMePartition) { p.Spec.AccessMode = v1alpha1.ReadWriteMany }
	copied := func(p *v1alpha1.NVMePartition) { p.Spec.AccessMode = v1alpha1.ReadOnlyMany }
	recovered := func(p *v1alpha1.NVMePartition) {
		copied(p)
		now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
		p.Status.Filesystem = &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, FormattedAt: &now, RecoveredAt: &now}
	}
	only := func(a *v1alpha1.NVMeVolumeAttachment) { a.Name = identity.AttachmentName(string(a.Spec.VolumeRef.UID)) }
	for name, c := range map[string]struct {
		partition  func(*v1alpha1.NVMePartition)
		attachment func(*v1alpha1.NVMeVolumeAttachment)
		want       bool
	}{
		"first reader of a copy": {partition: copied, want: true},
		"another reader before its journal is replayed": {partition: copied, attachment: func(a *v1alpha1.NVMeVolumeAttachment) {
			a.Name = identity.SharedAttachmentName(string(a.Spec.VolumeRef.UID), a.Spec.NodeID)
		}},
		"reader of a recovered copy":             {partition: recovered, want: true},
		"first reader, after it has replayed it": {partition: recovered, attachment: only, want: true},
		"single writer":                          {want: true},
		"shared":                                 {partition: shared, want: true},
		"shared, with a single writer's name":    {partition: shared, attachment: only},
		"another name":                           {attachment: func(a *v1alpha1.NVMeVolumeAttachment) { a.Name = "mine" }},
		"another namespace":                      {attachment: func(a *v1alpha1.NVMeVolumeAttachment) { a.Namespace = "default" }},
		"another volume's UID":                   {attachment: func(a *v1alpha1.NVMeVolumeAttachment) { a.Spec.VolumeRef.UID = "x" }},
		"another kind":                           {attachment: func(a *v1alpha1.NVMeVolumeAttachment) { a.Spec.VolumeRef.Kind = v1alpha1.KindVolume }},
		"another node's NQN":                     {attachment: func(a *v1alpha1.NVMeVolumeAttachment) { a.Spec.HostNQN = identity.HostNQN("x") }},
		"no finalizer":                           {attachment: func(a *v1alpha1.NVMeVolumeAttachment) { a.Finalizers = nil }},
		"being deleted": {attachment: func(a *v1alpha1.NVMeVolumeAttachment) {
			now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
			a.DeletionTimestamp = &now
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := node.Partition("pvc-1", sliceSize)
			if c.partition != nil {
				c.partition(p)
			}
			a := node.Attachment(p, "consumer-0")
			if c.attachment != nil {
				c.attachment(a)
			}
			if got := volume.Admitted(p, a); got != c.want {
				t.Errorf("admitted = %v, want %v (%s)", got, c.want, volume.Inadmissible(p, a))
			}
			hosts := volume.Hosts(p, []v1alpha1.NVMeVolumeAttachment{*a, *a})
			if (len(hosts) == 1) != c.want {
				t.Errorf("hosts = %v", hosts)
			}
		})
	}
}
