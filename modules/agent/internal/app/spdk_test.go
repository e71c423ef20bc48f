package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof/spdk/drives"
	"github.com/distort-io/distort/modules/nvmeof/spdk/lvol"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

const slot = "0000:00:04.0"

// TestSPDKVolumeLives from its object to the drive that is the kernel's again.
func TestSPDKVolumeLives(t *testing.T) {
	w := newSPDKWorld(t)
	attached(w)
	w.boot().mustSettle()
	p := volumeOf(w)
	w.reload(p)
	lvols := w.node.SPDK.Lvols()
	if len(lvols) != 1 || p.Status.State != v1alpha1.PartitionExported || p.Status.AllocatedCapacity != sliceSize {
		t.Fatalf("logical volumes %+v, status %+v", lvols, p.Status)
	}
	got := *p.Status.Backend
	want := v1alpha1.BackendIdentity{LvstoreName: "lvs_" + serial, LvstoreUUID: got.LvstoreUUID, LvolName: identity.ExternalID(string(p.UID)), LvolUUID: lvols[0].UUID}
	if diff := cmp.Diff(want, got); diff != "" || got.LvstoreUUID == "" {
		t.Errorf("identity (-want +got):\n%s", diff)
	}
	if driver := w.node.Sysfs.Driver(slot); driver != pci.VFIO {
		t.Errorf("the drive has driver %q", driver)
	}
	d := w.node.Device()
	if w.reload(d); d.Status.ActiveBackend != v1alpha1.ActiveBackendSPDK {
		t.Errorf("activeBackend %q", d.Status.ActiveBackend)
	}
	host, err := w.node.SPDK.Connect(identity.HostNQN(consumer), volumetest.NQN(p), listener())
	if err != nil {
		t.Fatal(err)
	}
	// A host that nobody admits any more keeps the volume.
	detach(w)
	w.delete(p)
	a := w.boot()
	if err := host.Submit(identity.NSID, "in flight"); err != nil {
		t.Fatal(err)
	}
	w.node.SPDK.Complete()
	a.mustSettle()
	if err := host.Write(identity.NSID, "late"); err == nil {
		t.Error("the host writes after its attachment went")
	}
	if left := gone(w); len(left) > 0 {
		t.Error(left)
	}
	if w.reload(d); d.Status.ActiveBackend != v1alpha1.ActiveBackendNone || w.node.Sysfs.Driver(slot) != pci.NVMe {
		t.Errorf("activeBackend %q, driver %q", d.Status.ActiveBackend, w.node.Sysfs.Driver(slot))
	}
}

func TestSPDKVolumeIsKeptWhileAHostIsConnected(t *testing.T) {
	w := newSPDKWorld(t)
	createVolume(w)
	w.boot().mustSettle()
	p := volumeOf(w)
	stranger(w)
	host, err := w.node.SPDK.Connect("nqn.2014-08.org.example:stranger", volumetest.NQN(p), listener())
	if err != nil {
		t.Fatal(err)
	}
	w.delete(p)
	_ = w.boot().settle()
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionExported); got != "False/HostsConnected" || len(w.node.SPDK.Lvols()) != 1 {
		t.Errorf("Exported %s, logical volumes %v", got, w.node.SPDK.Lvols())
	}
	host.Disconnect()
	w.boot().mustSettle()
	if left := gone(w); len(left) > 0 {
		t.Error(left)
	}
}

// A recorded volume that is lost (known fault RR1) is never made anew.
func TestSPDKVolumeThatIsLostIsDataLoss(t *testing.T) {
	w := newSPDKWorld(t)
	createVolume(w)
	w.boot().mustSettle()
	w.node.SPDK.LoseLvol(w.node.SPDK.Lvols()[0].UUID)
	w.node.SPDK.Restart()
	_ = w.boot().settle()
	p := volumeOf(w)
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/DataLoss" || len(w.node.SPDK.Lvols()) != 0 {
		t.Errorf("Provisioned %s %q, logical volumes %v", got, message(p.Status.Conditions, v1alpha1.ConditionProvisioned), w.node.SPDK.Lvols())
	}
}

// TestDrivesThatSPDKDoesNotGet stay the kernel's, and as they are (known faults DI7,
// AG13, AG14).
func TestDrivesThatSPDKDoesNotGet(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(w *world)
		says    string
	}{
		"one with a filesystem": {func(w *world) {
			w.node.Drive.SetSignatures(carvetest.Signature{Type: "xfs", UUID: "92bc4618-56de-4bd2-8eed-28e6cacca5ce", Usage: "filesystem"})
		}, "xfs"},
		"one that is mounted":         {func(w *world) { w.node.Use("nvme3n1", "at /mnt") }, "/mnt"},
		"one with another namespace":  {func(w *world) { w.node.AddNamespace("nvme3n2") }, "nvme3n2"},
		"one that shares a group":     {func(w *world) { w.node.Sysfs.Add("0000:00:1f.0", "0x020000", "e1000e", "7") }, "0000:00:1f.0"},
		"with another store on it":    {otherStore, `"foreign"`},
		"with a blobstore that fails": {func(w *world) { w.node.Drive.SetHead("SPDKBLOB") }, "SPDK loads no store"},
		"without a driver for it":     {func(w *world) { w.node.Sysfs.Unload(pci.VFIO) }, "vfio-pci"},
		"that vfio does not take":     {func(w *world) { w.node.Sysfs.Refuse(pci.VFIO, true) }, "vfio-pci"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSPDKWorld(t)
			tc.arrange(w)
			stored := w.node.SPDK.Stored(slot)
			createVolume(w)
			_ = w.boot().settle()
			p := volumeOf(w)
			w.reload(p)
			if text := message(p.Status.Conditions, v1alpha1.ConditionProvisioned); !strings.Contains(text, tc.says) {
				t.Errorf("Provisioned says %q, want %q in it", text, tc.says)
			}
			if driver := w.node.Sysfs.Driver(slot); driver != pci.NVMe || w.node.SPDK.Stored(slot) != stored || len(w.node.SPDK.Lvols()) != 0 {
				t.Errorf("driver %q, store %t, was %t, logical volumes %v", driver, w.node.SPDK.Stored(slot), stored, w.node.SPDK.Lvols())
			}
			w.delete(p)
			_ = w.boot().settle()
			if w.reload(p) && name != "without a driver for it" && name != "with a blobstore that fails" {
				t.Errorf("it is not deleted: %s", message(p.Status.Conditions, v1alpha1.ConditionExported))
			}
			if w.node.SPDK.Stored(slot) != stored {
				t.Error("the deletion changed the drive")
			}
		})
	}
}

// otherStore has somebody else use the drive with SPDK.
func otherStore(w *world) {
	w.t.Helper()
	w.must(pci.New(w.node.Sysfs).Bind(slot, pci.VFIO))
	client := rpc.New(w.node.SPDK.Socket())
	defer client.Close()
	drive, err := drives.New(client).Attach(w.t.Context(), "other", slot)
	w.must(err)
	_, err = lvol.New(client).EnsureStore(w.t.Context(), lvol.StoreSpec{Device: "x", Bdev: drive.Bdev})
	w.must(err)
	w.must(client.Call(w.t.Context(), "bdev_lvol_delete_lvstore", map[string]any{"lvs_name": "lvs_x"}, nil))
	w.must(client.Call(w.t.Context(), "bdev_lvol_create_lvstore", map[string]any{"lvs_name": "foreign", "bdev_name": drive.Bdev}, nil))
	w.must(drives.New(client).Detach(w.t.Context(), "other"))
	w.must(pci.New(w.node.Sysfs).Bind(slot, pci.NVMe))
}

// TestSPDKThatWasStartedAnew serves nobody before all volumes are there again.
func TestSPDKThatWasStartedAnew(t *testing.T) {
	w := newSPDKWorld(t)
	second := w.node.Partition("pvc-2", sliceSize)
	attached(w)
	w.create(second)
	w.create(w.node.Attachment(second, consumer))
	a := w.boot()
	a.mustSettle()
	w.node.SPDK.Restart()
	found, err := a.verifier().Verify(t.Context(), w.slices())
	if err != nil || len(found.Broken) != 2 {
		t.Fatalf("%+v, %v; want both volumes", found, err)
	}
	w.node.SPDK.Trace()
	writes := a.written(func() {
		if _, err := a.reconcilePartition(volumeOf(w)); err != nil {
			t.Error(err)
		}
	})
	if len(writes) > 0 {
		t.Errorf("a repair wrote %v", writes)
	}
	var order []string
	for _, call := range w.node.SPDK.Trace() {
		method, _, _ := strings.Cut(call, " ")
		if method == "nvmf_create_subsystem" || method == "nvmf_subsystem_add_listener" {
			order = append(order, method)
		}
	}
	want := []string{"nvmf_create_subsystem", "nvmf_create_subsystem", "nvmf_subsystem_add_listener", "nvmf_subsystem_add_listener"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for _, p := range []*v1alpha1.NVMePartition{volumeOf(w), second} {
		if _, err := w.node.Connect(consumer, p); err != nil {
			t.Error(err)
		}
	}
}

// A target that is down is no reason not to look at the kernel's exports.
func TestSPDKThatIsDownIsSaid(t *testing.T) {
	w := newSPDKWorld(t)
	createVolume(w)
	a := w.boot()
	a.mustSettle()
	w.node.SPDK.Close()
	found, err := a.verifier().Verify(t.Context(), w.slices())
	if err != nil || len(found.Broken) != 1 || !strings.Contains(found.Unseen, "spdk") {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestSPDKDrivesStayInTheInventory: the kernel does not show a drive that SPDK has.
func TestSPDKDrivesStayInTheInventory(t *testing.T) {
	w := newSPDKWorld(t)
	a := w.boot()
	look := func(want ...string) {
		t.Helper()
		_, err := a.reporter.Reconcile(t.Context(), requestOf(&v1alpha1.RDMAStorageNode{ObjectMeta: w.node.StorageNode().ObjectMeta}))
		if err != nil {
			t.Fatal(err)
		}
		d := w.node.Device()
		w.reload(d)
		got := []string{condition(d.Status.Conditions, v1alpha1.ConditionHardwareAvailable), condition(d.Status.Conditions, v1alpha1.ConditionMediaUsable),
			condition(d.Status.Conditions, v1alpha1.ConditionAudited)}
		if !slices.Equal(got, want) {
			t.Errorf("conditions %v, want %v: %+v", got, want, d.Status.Conditions)
		}
	}
	look("True/Discovered", "True/Blank", "True/Clean")
	createVolume(w)
	a.mustSettle()
	look("True/Discovered", "True/OwnLabel", "True/Clean")
	d := w.node.Device()
	w.reload(d)
	if free := d.Status.LargestFreeExtent; free <= 0 || free > driveSize-sliceSize {
		t.Errorf("largest free extent %d", free)
	}
	w.node.SPDK.Restart()
	look("Unknown/ScanDegraded", "True/OwnLabel", "True/Clean")
	a.mustSettle()
	look("True/Discovered", "True/OwnLabel", "True/Clean")
}

func TestNamesOfSerialNumbers(t *testing.T) {
	for _, s := range []string{"S3R1AL", "a b/c", strings.Repeat("9", 20)} {
		if name := spdkdrive.StoreName(s); len(name) > 63 || strings.ContainsAny(name, " /") {
			t.Errorf("store of %q is named %q", s, name)
		}
	}
	if spdkdrive.StoreName("a b") == spdkdrive.StoreName("a_b") {
		t.Error("two drives have one name")
	}
}
