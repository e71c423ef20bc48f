package app_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
)

func noDelay() time.Duration { return time.Millisecond }

func provisionCarvesExportsAndWritesOnce(t *testing.T, on site) {
	w := on.open(t)
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	a := w.boot()
	got := a.written(a.mustSettle)
	if diff := cmp.Diff(map[string]int{"NVMePartition/status": 1, "NVMeDevice/status": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	w.reload(p)
	uid := string(p.UID)
	want := v1alpha1.NVMePartitionStatus{
		State: v1alpha1.PartitionExported, ExternalID: identity.ExternalID(uid),
		VolumeHandle: "partition:distort-system:pvc-1:" + uid, AllocatedCapacity: sliceSize,
		Backend: w.backendIdentity(p),
		NQN:     volumetest.NQN(p), NamespaceUUID: identity.NamespaceUUID(uid), NamespaceNGUID: identity.NamespaceNGUID(uid),
		Portals: []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}},
	}
	status := p.Status
	conditions := map[string]string{}
	for _, c := range status.Conditions {
		conditions[c.Type] = string(c.Status) + "/" + c.Reason
	}
	status.Conditions = nil
	if diff := cmp.Diff(want, status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{
		"Placed": "True/Placed", "ClaimAuthorized": "True/ClaimMatches", "Provisioned": "True/Carved", "Exported": "True/Exported",
	}, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	s, _ := w.state(p)
	if len(s.Namespaces) != 1 || s.Namespaces[0].UUID.String() != status.NamespaceUUID || !s.Namespaces[0].Enabled || s.Namespaces[0].NSID != identity.NSID {
		t.Errorf("namespaces = %+v", s.Namespaces)
	}
	if s.Serial != identity.SubsystemSerial(uid) || s.AllowAnyHost || len(s.AllowedHosts) != 0 {
		t.Errorf("subsystem = %+v, want serial of the volume and nobody admitted", s)
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("an idle agent wrote %v", got)
	}
}

// Faults DV1 and DV11: the export goes by its recorded name before what it holds (the
// model refuses to delete a partition that is exported), and nothing of either stays.
func deletionLeavesNothing(t *testing.T, on site) {
	w := on.open(t)
	before := w.node.Dump()
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	a := w.boot()
	a.mustSettle()
	w.delete(p)
	got := a.written(a.mustSettle)
	if diff := cmp.Diff(map[string]int{"NVMePartition": 1, "NVMeDevice/status": 1}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	wantNothingLeft(t, w, p, before)
}

func wantNothingLeft(t *testing.T, w *world, p *v1alpha1.NVMePartition, before []string) {
	t.Helper()
	if w.reload(p) {
		t.Errorf("the object is still there: %s", message(p.Status.Conditions, v1alpha1.ConditionExported))
	}
	if diff := cmp.Diff(before, w.node.Dump()); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
	d := w.node.Device()
	if w.reload(d); d.Status.ActiveBackend != v1alpha1.ActiveBackendNone && d.Status.ActiveBackend != "" {
		t.Errorf("activeBackend = %s although no partition is left", d.Status.ActiveBackend)
	}
}

func deletionOfOnePartitionKeepsItsSibling(t *testing.T, on site) {
	w := on.open(t)
	p, sibling := w.node.Partition("pvc-1", sliceSize), w.node.Partition("pvc-2", sliceSize)
	w.create(p)
	w.create(sibling)
	a := w.boot()
	a.mustSettle()
	want, _ := w.state(sibling)
	w.delete(p)
	a.mustSettle()
	if got, _ := w.state(sibling); !cmp.Equal(want, got) {
		t.Errorf("sibling's export (-want +got):\n%s", cmp.Diff(want, got))
	}
	w.reload(sibling)
	if diff := cmp.Diff([]string{sliceOf(sibling)}, w.node.Slices()); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
	d := w.node.Device()
	if w.reload(d); string(d.Status.ActiveBackend) != on.name {
		t.Errorf("activeBackend = %q, want %s while a partition is there", d.Status.ActiveBackend, on.name)
	}
}

// What stops a partition before anything is touched, or is put right later.
func provisionRefusals(t *testing.T, on site) {
	other := v1alpha1.ObjectReference{Namespace: "x", Name: "other", UID: volumetest.UID("other")}
	for name, c := range map[string]struct {
		arrange   func(*world, *v1alpha1.NVMePartition)
		condition string
		want      string
		mentions  string
		state     v1alpha1.PartitionState
		terminal  bool
		// repair makes it work; nil when nothing can.
		repair func(*world)
		// only is the backend that can be so; empty means each.
		only string
		// begun: SPDK has the drive already when it finds that out.
		begun bool
	}{
		"a drive of another claim": {
			arrange: func(w *world, _ *v1alpha1.NVMePartition) {
				setStatus(w, w.node.Device(), func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef = &other })
			},
			condition: v1alpha1.ConditionClaimAuthorized, want: "False/ClaimMismatch", mentions: "x/other", state: v1alpha1.PartitionFailed, terminal: true,
		},
		"a claim of the same name in another life": {
			arrange: func(w *world, _ *v1alpha1.NVMePartition) {
				setStatus(w, w.node.Device(), func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef.UID = other.UID })
			},
			condition: v1alpha1.ConditionClaimAuthorized, want: "False/ClaimMismatch", mentions: string(other.UID), state: v1alpha1.PartitionFailed, terminal: true,
		},
		"a drive that is not claimed": {
			arrange: func(w *world, _ *v1alpha1.NVMePartition) {
				setStatus(w, w.node.Device(), func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef = nil })
			},
			condition: v1alpha1.ConditionClaimAuthorized, want: "False/ClaimMismatch", mentions: "not claimed", state: v1alpha1.PartitionPending,
			repair: func(w *world) {
				claim := volumetest.Claim()
				setStatus(w, w.node.Device(), func(d *v1alpha1.NVMeDevice) { d.Status.ClaimRef = &claim })
			},
		},
		"a drive without an object": {
			arrange:   func(w *world, _ *v1alpha1.NVMePartition) { w.delete(w.node.Device()) },
			condition: v1alpha1.ConditionClaimAuthorized, want: "False/DeviceMissing", mentions: serial, state: v1alpha1.PartitionPending,
			repair: func(w *world) { w.create(w.node.Device()) },
		},
		"a drive that was pulled": {
			arrange:   func(w *world, _ *v1alpha1.NVMePartition) { w.node.Pull(true) },
			condition: v1alpha1.ConditionClaimAuthorized, want: "False/DeviceMissing", mentions: serial, state: v1alpha1.PartitionPending,
			repair: func(w *world) { w.node.Pull(false) },
		},
		"a drive with somebody's filesystem": {
			arrange: func(w *world, _ *v1alpha1.NVMePartition) {
				w.node.Drive.SetSignatures(carvetest.Signature{Type: "ext4", Offset: 0x438})
			},
			condition: v1alpha1.ConditionProvisioned, want: "False/DriveRefused", mentions: "ext4", state: v1alpha1.PartitionFailed, terminal: true,
		},
		"a drive of the other backend": {
			arrange: func(w *world, _ *v1alpha1.NVMePartition) {
				other := v1alpha1.ActiveBackendSPDK
				if w.node.SPDK != nil {
					other = v1alpha1.ActiveBackendKernel
				}
				setStatus(w, w.node.Device(), func(d *v1alpha1.NVMeDevice) { d.Status.ActiveBackend = other })
			},
			condition: v1alpha1.ConditionProvisioned, want: "False/DriveRefused", mentions: "is used by backend", state: v1alpha1.PartitionFailed, terminal: true,
		},
		"a backend that the agent does not have": {
			only:      "kernel",
			arrange:   func(_ *world, p *v1alpha1.NVMePartition) { p.Spec.TargetBackend = v1alpha1.BackendSPDK },
			condition: v1alpha1.ConditionProvisioned, want: "False/BackendUnsupported", mentions: `"spdk"`, state: v1alpha1.PartitionFailed, terminal: true,
		},
		"a backend that nobody knows": {
			arrange:   func(_ *world, p *v1alpha1.NVMePartition) { p.Spec.TargetBackend = "vhost" },
			condition: v1alpha1.ConditionProvisioned, want: "False/BackendUnsupported", mentions: `"vhost"`, state: v1alpha1.PartitionFailed, terminal: true,
		},
		"more than the drive has": {
			arrange:   func(_ *world, p *v1alpha1.NVMePartition) { p.Spec.Size = 2 * driveSize },
			condition: v1alpha1.ConditionProvisioned, want: "False/NoSpace", mentions: "no space on the drive", begun: true, state: v1alpha1.PartitionFailed, terminal: true,
		},
		"no address for the transport": {
			arrange:   func(w *world, _ *v1alpha1.NVMePartition) { w.node.SetPortals() },
			condition: v1alpha1.ConditionExported, want: "False/NoPortal", mentions: "tcp", state: v1alpha1.PartitionCreating,
			repair: func(w *world) {
				w.node.SetPortals(inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.9"), NUMANode: -1})
			},
		},
		"an address that another program listens on": {
			arrange:   func(w *world, _ *v1alpha1.NVMePartition) { w.node.Occupy(true) },
			condition: v1alpha1.ConditionExported, want: "False/ExportFailed", mentions: "10.0.0.1", state: v1alpha1.PartitionCreating,
		},
		"a slice that the node has mounted": {
			only:      "kernel",
			arrange:   func(w *world, _ *v1alpha1.NVMePartition) { w.node.Use(w.node.Drive.Inventory().Name+"p1", "at /mnt") },
			condition: v1alpha1.ConditionExported, want: "False/ExportFailed", mentions: "/mnt", state: v1alpha1.PartitionCreating,
			repair: func(w *world) { w.node.Use(w.node.Drive.Inventory().Name+"p1", "") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.only != "" && c.only != on.name {
				return
			}
			w := on.open(t)
			before := w.node.Dump()
			p := w.node.Partition("pvc-1", sliceSize)
			c.arrange(w, p)
			w.create(p)
			a := w.boot()
			err := a.settle()
			if got := errors.Is(err, reconcile.TerminalError(nil)); got != c.terminal {
				t.Errorf("terminal = %v (%v), want %v", got, err, c.terminal)
			}
			w.reload(p)
			if got := condition(p.Status.Conditions, c.condition); got != c.want {
				t.Errorf("%s = %s, want %s", c.condition, got, c.want)
			}
			if m := message(p.Status.Conditions, c.condition); !strings.Contains(m, c.mentions) {
				t.Errorf("message %q does not mention %q", m, c.mentions)
			}
			if p.Status.State != c.state {
				t.Errorf("state = %s, want %s", p.Status.State, c.state)
			}
			if c.condition != v1alpha1.ConditionExported && (!c.begun || w.node.SPDK == nil) {
				if diff := cmp.Diff(before, w.node.Dump()); diff != "" {
					t.Errorf("the node was touched (-before +after):\n%s", diff)
				}
			}
			if got := a.written(func() { _ = a.settle() }); len(got) != 0 {
				t.Errorf("a refusal that lasts was written again: %v", got)
			}
			if c.repair != nil {
				c.repair(w)
				a.mustSettle()
				if w.reload(p); p.Status.State != v1alpha1.PartitionExported {
					t.Errorf("state after the repair = %s", p.Status.State)
				}
			}
			w.reload(p)
			w.delete(p)
			if err := a.settle(); err != nil {
				t.Errorf("deletion: %v", err)
			}
			if w.reload(p) {
				t.Errorf("deletion is stuck: %s", message(p.Status.Conditions, v1alpha1.ConditionExported))
			}
			if diff := cmp.Diff(before, w.node.Dump()); diff != "" {
				t.Errorf("the node after the deletion (-before +after):\n%s", diff)
			}
		})
	}
}

// Fault RR1: a slice that was there is never made anew.
func TestALostSliceIsDataLossAndStaysSo(t *testing.T) {
	w := newWorld(t)
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	w.boot().mustSettle()
	w.node.Drive.SetGPT(identity.DiskGUID(serial), 2048, nil)
	w.node.Reboot()
	a := w.boot()
	if err := a.settle(); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want a terminal one", err)
	}
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionProvisioned); got != "False/DataLoss" {
		t.Errorf("Provisioned = %s, want False/DataLoss", got)
	}
	if got := condition(p.Status.Conditions, v1alpha1.ConditionExported); got != "False/ExportFailed" {
		t.Errorf("Exported = %s, want it withdrawn", got)
	}
	if p.Status.State != v1alpha1.PartitionFailed || len(w.node.Slices()) != 0 || len(w.node.Exports(t)) != 0 {
		t.Errorf("state %s, slices %v, exports %v: want nothing made anew", p.Status.State, w.node.Slices(), w.node.Exports(t))
	}
}

func afterARebootTheSameExportIsRebuiltWithoutAWrite(t *testing.T, on site) {
	w := on.open(t)
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	w.create(w.node.Attachment(p, consumer))
	w.boot().mustSettle()
	want, _ := w.state(p)
	w.node.Reboot()
	if _, ok := w.state(p); ok {
		t.Fatal("the reboot kept the export")
	}
	a := w.boot()
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("writes = %v, want none: nothing changed", got)
	}
	if got, _ := w.state(p); !cmp.Equal(want, got) {
		t.Errorf("export (-before +after):\n%s", cmp.Diff(want, got))
	}
}

// Hosts reconnect while the agent starts. One that reaches its address before its
// volume is there gives the volume up for ever.
func TestAfterARebootNoHostIsTurnedAway(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
		p := w.node.Partition(name, sliceSize)
		w.create(p)
		w.create(w.node.Attachment(p, consumer))
	}
	w.boot().mustSettle()
	w.node.Reboot()
	w.node.Kernel.Trace()
	a := w.boot()
	listening := 0
	for _, line := range w.node.Kernel.Trace() {
		if strings.HasPrefix(line, "symlink ports/") {
			listening++
		} else if listening > 0 {
			t.Errorf("when %d of 3 volumes could be reached: %s", listening, line)
		}
	}
	if listening != 3 {
		t.Errorf("%d volumes can be reached, want 3", listening)
	}
	if got := a.written(a.mustSettle); len(got) != 0 {
		t.Errorf("writes = %v, want none: nothing changed", got)
	}
	if trace := w.node.Kernel.Trace(); len(trace) != 0 {
		t.Errorf("after all was restored: %v", trace)
	}
}

// An export that its reconciler had withdrawn its word for is not made before that
// one has looked at claim, drive and slice again.
func afterARebootOnlyWhatWasVouchedForIsRestored(t *testing.T, on site) {
	w := on.open(t)
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	w.boot().mustSettle()
	setStatus(w, p, func(p *v1alpha1.NVMePartition) {
		meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExported).Status = metav1.ConditionFalse
	})
	w.node.Reboot()
	a := w.boot()
	if exports := w.node.Exports(t); len(exports) != 0 {
		t.Errorf("restored %v", exports)
	}
	a.mustSettle()
	if exports := w.node.Exports(t); len(exports) != 1 {
		t.Errorf("exports %v, want the one that the reconciler makes", exports)
	}
}

// Faults AG1 and AG4: each broken part is found by the bulk check, repaired, or
// the export is not vouched for any more.
func TestBrokenExportsAreFoundAndRepaired(t *testing.T) {
	for name, spoil := range map[string]func(*world, string) error{
		"namespace disabled": func(w *world, dir string) error {
			return w.node.Kernel.WriteFile(dir+"/namespaces/1/enable", []byte("0"))
		},
		"any host allowed": func(w *world, dir string) error {
			if err := w.node.Kernel.Remove(dir + "/allowed_hosts/" + identity.HostNQN(consumer)); err != nil {
				return err
			}
			return w.node.Kernel.WriteFile(dir+"/attr_allow_any_host", []byte("1"))
		},
		"host taken off": func(w *world, dir string) error {
			return w.node.Kernel.Remove(dir + "/allowed_hosts/" + identity.HostNQN(consumer))
		},
		"stranger admitted": func(w *world, dir string) error {
			host := "hosts/nqn.2014-08.org.example:stranger"
			if err := w.node.Kernel.Mkdir(host); err != nil {
				return err
			}
			return w.node.Kernel.Symlink(host, dir+"/allowed_hosts/nqn.2014-08.org.example:stranger")
		},
		"address moved": func(w *world, _ string) error {
			w.node.SetPortals(inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.7"), NUMANode: -1})
			return nil
		},
		"address added": func(w *world, _ string) error {
			w.node.SetPortals(inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.1"), NUMANode: -1},
				inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.7"), NUMANode: -1})
			return nil
		},
		"namespace removed": func(w *world, dir string) error { return w.node.Kernel.Rmdir(dir + "/namespaces/1") },
		"namespace with another device": func(w *world, dir string) error {
			w.node.Kernel.AddDevice("/dev/sdz")
			return spoiled(w, dir, "device_path", "/dev/sdz")
		},
		"namespace with another UUID":  func(w *world, dir string) error { return spoiled(w, dir, "device_uuid", foreignID) },
		"namespace with another NGUID": func(w *world, dir string) error { return spoiled(w, dir, "device_nguid", foreignID) },
		"a second namespace": func(w *world, dir string) error {
			return w.node.Kernel.Mkdir(dir + "/namespaces/2")
		},
		"another serial": func(w *world, dir string) error { return w.node.Kernel.WriteFile(dir+"/attr_serial", []byte("X")) },
		"another model":  func(w *world, dir string) error { return w.node.Kernel.WriteFile(dir+"/attr_model", []byte("X")) },
		"not on its port": func(w *world, dir string) error {
			return w.node.Kernel.Remove(portOf(w) + "/" + dir)
		},
		"port removed": func(w *world, dir string) error {
			port := portOf(w)
			if err := w.node.Kernel.Remove(port + "/" + dir); err != nil {
				return err
			}
			return w.node.Kernel.Rmdir(port)
		},
		"on a port too many": func(w *world, dir string) error {
			if err := w.node.Kernel.Mkdir("ports/99"); err != nil {
				return err
			}
			for attr, value := range map[string]string{"trtype": "tcp", "adrfam": "ipv4", "traddr": "0.0.0.0", "trsvcid": "9999"} {
				if err := w.node.Kernel.WriteFile("ports/99/addr_"+attr, []byte(value)); err != nil {
					return err
				}
			}
			return w.node.Kernel.Symlink(dir, "ports/99/"+dir)
		},
		"all of it gone": func(w *world, dir string) error {
			for _, step := range []error{
				w.node.Kernel.Remove(portOf(w) + "/" + dir), w.node.Kernel.Rmdir(dir + "/namespaces/1"),
				w.node.Kernel.Remove(dir + "/allowed_hosts/" + identity.HostNQN(consumer)), w.node.Kernel.Rmdir(dir),
			} {
				if step != nil {
					return step
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.node.Partition("pvc-1", sliceSize)
			w.create(p)
			w.create(w.node.Attachment(p, consumer))
			a := w.boot()
			a.mustSettle()
			w.reload(p)
			check := volume.NewVerifier(a.Exporter, a.Locator)
			verify := func() volume.Verification {
				v, err := check.Verify(t.Context(), []v1alpha1.Slice{p})
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			w.node.Kernel.Trace()
			if v := verify(); len(v.Broken) != 0 || len(w.node.Kernel.Trace()) != 0 {
				t.Fatalf("before anything broke: %v", v.Broken)
			}
			if err := spoil(w, "subsystems/"+volumetest.NQN(p)); err != nil {
				t.Fatal(err)
			}
			if v := verify(); len(v.Broken[p.UID]) == 0 {
				t.Fatal("the check found nothing")
			}
			a.mustSettle()
			if v := verify(); len(v.Broken) != 0 {
				t.Errorf("after the repair: %v", v.Broken)
			}
			s, _ := w.state(p)
			if diff := cmp.Diff([]string{identity.HostNQN(consumer)}, s.AllowedHosts); diff != "" || s.AllowAnyHost {
				t.Errorf("hosts (-want +got, any %v):\n%s", s.AllowAnyHost, diff)
			}
		})
	}
}

const foreignID = "11111111-2222-4333-8444-555555555555"

// spoiled changes an attribute of the namespace behind the agent's back.
func spoiled(w *world, dir, attr, value string) error {
	for _, step := range [][2]string{{"enable", "0"}, {attr, value}, {"enable", "1"}} {
		if err := w.node.Kernel.WriteFile(dir+"/namespaces/1/"+step[0], []byte(step[1])); err != nil {
			return err
		}
	}
	return nil
}

// portOf is the port that serves the only volume.
func portOf(w *world) string {
	w.t.Helper()
	s, _ := w.state(volumeOf(w))
	if len(s.Ports) != 1 {
		w.t.Fatalf("ports = %v", s.Ports)
	}
	return fmt.Sprintf("ports/%d", s.Ports[0].ID)
}

func TestExportedIsWithdrawnWhileTheTargetRefusesAndComesBack(t *testing.T) {
	w := newWorld(t)
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	a := w.boot()
	a.mustSettle()
	if err := w.node.Kernel.WriteFile("subsystems/"+volumetest.NQN(p)+"/namespaces/1/enable", []byte("0")); err != nil {
		t.Fatal(err)
	}
	w.node.Kernel.FailAt(1, errors.New("input/output error"))
	if _, err := a.reconcilePartition(p); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("error = %v, want one that is tried again", err)
	}
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionExported); got != "False/ExportFailed" {
		t.Errorf("Exported = %s while the namespace is off", got)
	}
	a.mustSettle()
	w.reload(p)
	if got := condition(p.Status.Conditions, v1alpha1.ConditionExported); got != "True/Exported" {
		t.Errorf("Exported = %s after the repair", got)
	}
}

// Fault RR5: what the agent did not make it does not touch. Somebody else's export is
// none of its business unless it has a drive that DISTORT was given.
func TestStrangersOnTheTargetAreLeftAlone(t *testing.T) {
	const theirs, onOurs = "nqn.2014-08.org.example:theirs", "nqn.2014-08.org.example:ours"
	w := newWorld(t)
	orphan := volumetest.NQN(w.node.Partition("gone", sliceSize))
	drive := "/dev/" + w.node.Drive.Inventory().Name
	stranger := makeStrangers(w, map[string]string{"/dev/sdy": orphan, "/dev/sdz": theirs, drive: onOurs})
	p := w.node.Partition("pvc-1", sliceSize)
	w.create(p)
	a := w.boot()
	a.mustSettle()
	w.reload(p)
	found, err := volume.NewVerifier(a.Exporter, a.Locator).Verify(t.Context(), []v1alpha1.Slice{p})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{orphan, "subsystem " + onOurs + " with " + drive + " of the claimed drive " + serial}
	slices.Sort(want)
	if diff := cmp.Diff(want, found.Strangers); diff != "" {
		t.Errorf("strangers (-want +got):\n%s", diff)
	}
	w.delete(p)
	a.mustSettle()
	if diff := cmp.Diff(stranger, w.node.Dump()); diff != "" {
		t.Errorf("node (-before +after):\n%s", diff)
	}
}

// makeStrangers makes subsystems that no object speaks of, by the path of their
// device, and returns the node then.
func makeStrangers(w *world, nqns map[string]string) []string {
	w.t.Helper()
	for path, nqn := range nqns {
		uuid := nvmeof.DeriveUUID(nqn)
		w.node.Kernel.AddDevice(path)
		_, err := w.node.Boot(w.t, nil).Target.Ensure(w.t.Context(), nvmeof.Subsystem{
			NQN: nqn, Serial: nvmeof.DeriveSerial(nqn),
			Namespaces: []nvmeof.Namespace{{NSID: 1, DevicePath: path, UUID: uuid, NGUID: uuid.NGUID()}},
			Listeners:  []nvmeof.Listener{{Transport: nvmeof.TCP, Address: addr("10.0.0.1"), Port: 4420}},
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return w.node.Dump()
}

// The two reconcilers share one export: whatever runs first after a restart, the
// outcome is the same.
func restartRebuildsInAnyOrder(t *testing.T, on site) {
	for _, attachmentFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("attachment first %v", attachmentFirst), func(t *testing.T) {
			w := on.open(t)
			createVolume(w)
			attach(w)
			w.boot().mustSettle()
			p := volumeOf(w)
			want, _ := w.state(p)
			w.node.Reboot()
			a := w.boot()
			if attachmentFirst {
				if _, err := a.reconcileAttachment(w.node.Attachment(p, consumer)); err != nil {
					t.Fatal(err)
				}
			}
			a.mustSettle()
			if got, _ := w.state(p); !cmp.Equal(want, got) {
				t.Errorf("export (-before +after):\n%s", cmp.Diff(want, got))
			}
		})
	}
}

// An address that comes or goes is followed at once by status and listeners, and
// nobody who is connected is disturbed: not on an address that stays, and not on
// one that is only down for a moment.
func endpointChangeLeavesLiveSessionsAlone(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	at := w.node.Attachment(p, consumer)
	w.create(at)
	a.mustSettle()
	host, err := w.node.Connect(at.Spec.NodeID, p)
	if err != nil {
		t.Fatal(err)
	}
	tcp := func(a string) inventory.Portal {
		return inventory.Portal{Fabric: inventory.FabricTCP, Address: addr(a), NUMANode: -1}
	}
	for _, step := range []struct {
		name            string
		node            []inventory.Portal
		status, listens []string
	}{
		{"a second address", []inventory.Portal{tcp("10.0.0.1"), tcp("10.0.0.7")}, []string{"10.0.0.1", "10.0.0.7"}, []string{"10.0.0.1", "10.0.0.7"}},
		{"the first is down", []inventory.Portal{tcp("10.0.0.7")}, []string{"10.0.0.7"}, []string{"10.0.0.1", "10.0.0.7"}},
		{"and up again", []inventory.Portal{tcp("10.0.0.1"), tcp("10.0.0.7")}, []string{"10.0.0.1", "10.0.0.7"}, []string{"10.0.0.1", "10.0.0.7"}},
		{"it is replaced", []inventory.Portal{tcp("10.0.0.8"), tcp("10.0.0.7")}, []string{"10.0.0.7", "10.0.0.8"}, []string{"10.0.0.1", "10.0.0.7", "10.0.0.8"}},
	} {
		w.node.SetPortals(step.node...)
		a.mustSettle()
		w.reload(p)
		if got := addresses(p.Status.Portals); !cmp.Equal(step.status, got) {
			t.Errorf("%s: status has %v, want %v", step.name, got, step.status)
		}
		if got := listening(w, p); !cmp.Equal(step.listens, got) {
			t.Errorf("%s: the target listens on %v, want %v", step.name, got, step.listens)
		}
		if err := host.Write(identity.NSID, step.name); err != nil {
			t.Fatalf("%s: the session was ended: %v", step.name, err)
		}
	}
	w.delete(at)
	a.mustSettle()
	a.mustSettle()
	if got, want := listening(w, p), []string{"10.0.0.7", "10.0.0.8"}; !cmp.Equal(want, got) {
		t.Errorf("without hosts the target listens on %v, want %v", got, want)
	}
}

func addresses(portals []v1alpha1.Portal) []string {
	var out []string
	for _, p := range portals {
		out = append(out, p.Address)
	}
	return out
}

func listening(w *world, p *v1alpha1.NVMePartition) []string {
	s, _ := w.state(p)
	var out []string
	for _, port := range s.Ports {
		out = append(out, port.Address)
	}
	slices.Sort(out)
	return out
}

// After a reboot an address that the node has lost is not tried again.
func aRebootForgetsFormerAddresses(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	w.create(w.node.Attachment(p, consumer))
	a.mustSettle()
	w.node.Reboot()
	w.node.SetPortals(inventory.Portal{Fabric: inventory.FabricTCP, Address: addr("10.0.0.7"), NUMANode: -1})
	w.boot().mustSettle()
	if got, want := listening(w, p), []string{"10.0.0.7"}; !cmp.Equal(want, got) {
		t.Errorf("the target listens on %v, want %v", got, want)
	}
}

func TestAHostThatIsConnectedWithoutAnAttachmentIsNamed(t *testing.T) {
	w, a, p := exported(t)
	anyone := identity.HostNQN("somebody")
	dir := "subsystems/" + volumetest.NQN(p)
	w.must(w.node.Kernel.Mkdir("hosts/" + anyone))
	w.must(w.node.Kernel.Symlink("hosts/"+anyone, dir+"/allowed_hosts/"+anyone))
	if _, err := w.node.Kernel.Connect(anyone, volumetest.NQN(p), listener()); err != nil {
		t.Fatal(err)
	}
	w.must(w.node.Kernel.Remove(dir + "/allowed_hosts/" + anyone))
	found, err := volume.NewVerifier(a.Exporter, a.Locator).Verify(t.Context(), []v1alpha1.Slice{p})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"host " + anyone + " connected to " + volumetest.NQN(p)}; !cmp.Equal(want, found.Strangers) {
		t.Errorf("strangers = %v, want %v", found.Strangers, want)
	}
}

// Fault DV7: only somebody who says so by the partition's UID gives up what is on a
// drive that is gone.
func deletionWithoutTheDriveNeedsSomebodyToAbandonTheData(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	carved := w.node.Slices()
	w.node.Pull(true)
	w.delete(p)
	for _, value := range []string{"", "yes", string(volumetest.UID("other"))} {
		annotate(w, p, value)
		a.mustSettle()
		if !w.reload(p) {
			t.Fatalf("with %q the object went", value)
		}
	}
	annotate(w, p, string(p.UID))
	a.mustSettle()
	if w.reload(p) {
		t.Errorf("deletion is stuck: %s", message(p.Status.Conditions, v1alpha1.ConditionExported))
	}
	if got := w.node.Slices(); !cmp.Equal(carved, got) {
		t.Errorf("slices = %v, want %v: nothing on the medium is touched", got, carved)
	}
}

func annotate(w *world, p *v1alpha1.NVMePartition, value string) {
	w.t.Helper()
	w.reload(p)
	before := p.DeepCopy()
	p.Annotations = map[string]string{v1alpha1.AbandonDataAnnotation: value}
	w.must(w.api.Patch(w.t.Context(), p, client.MergeFrom(before)))
}

func aDriveThatIsThereIsNotAbandoned(t *testing.T, on site) {
	w := on.open(t)
	a, p := w.exported()
	annotate(w, p, string(p.UID))
	w.delete(p)
	a.mustSettle()
	if w.reload(p) || len(w.node.Slices()) != 0 {
		t.Errorf("slices = %v, want the slice deleted as ever", w.node.Slices())
	}
}
