package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
)

// objects reads all partitions and attachments.
func (w *world) objects() ([]v1alpha1.NVMePartition, []v1alpha1.NVMeVolumeAttachment) {
	w.t.Helper()
	var partitions v1alpha1.NVMePartitionList
	var attachments v1alpha1.NVMeVolumeAttachmentList
	w.must(w.api.List(w.t.Context(), &partitions))
	w.must(w.api.List(w.t.Context(), &attachments))
	return partitions.Items, attachments.Items
}

func (w *world) states() []nvmeof.State {
	w.t.Helper()
	states, err := w.node.Target().List(w.t.Context())
	w.must(err)
	return states
}

// hostPrefix starts the NQN of every node of the cluster.
var hostPrefix = strings.TrimRight(identity.HostNQN(""), "0123456789abcdef")

// doubleUses are violations that no moment may show, not even the one after a kill:
// two owners of one region or device, or a host that may write though nothing says
// so any more.
func (w *world) doubleUses() []string {
	var out []string
	entries := w.node.Drive.Entries()
	uuids := map[string]int{}
	for n, e := range entries {
		uuids[e.UUID]++
		for m, o := range entries {
			if n < m && e.Start < o.Start+o.Size && o.Start < e.Start+e.Size {
				out = append(out, fmt.Sprintf("partitions %d and %d overlap", n, m))
			}
		}
	}
	for uuid, n := range uuids {
		if n > 1 {
			out = append(out, fmt.Sprintf("%d partitions have UUID %s", n, uuid))
		}
	}
	names := map[string]int{}
	if w.node.SPDK != nil {
		for _, l := range w.node.SPDK.Lvols() {
			if names[l.Name]++; names[l.Name] > 1 {
				out = append(out, "two logical volumes are named "+l.Name)
			}
		}
	}
	_, attachments := w.objects()
	devices := map[string][]string{}
	for _, s := range w.states() {
		for _, ns := range s.Namespaces {
			if ns.Enabled {
				devices[ns.DevicePath] = append(devices[ns.DevicePath], s.NQN)
			}
		}
	}
	for path, by := range devices {
		if len(by) > 1 {
			out = append(out, fmt.Sprintf("%s is exported by %v", path, by))
		}
	}
	// Hosts whose attachment is gone (design.md §6). The strangers that flows put on
	// a list are not the agent's doing.
	for _, p := range w.slices() {
		s, ok := w.state(p)
		if !ok {
			continue
		}
		for _, host := range s.AllowedHosts {
			held := slices.ContainsFunc(attachments, func(a v1alpha1.NVMeVolumeAttachment) bool {
				return volume.Refers(&a, p) && a.Spec.HostNQN == host
			})
			if !held && strings.HasPrefix(host, hostPrefix) {
				out = append(out, fmt.Sprintf("%s admits %s without an attachment", s.NQN, host))
			}
		}
	}
	return out
}

// leaks are what is left of objects that are gone.
func (w *world) leaks() []string {
	var out []string
	partitions, _ := w.objects()
	slicesOf, exports := map[string]bool{}, map[string]bool{}
	for i := range partitions {
		slicesOf[volume.SliceUUID(&partitions[i])] = true
	}
	for _, s := range w.slices() {
		slicesOf[string(s.GetUID())] = true
		exports[volumetest.NQN(s)] = true
	}
	for _, z := range w.node.Pools.Zvols() {
		if !slicesOf[z.UID] {
			out = append(out, "zvol "+z.Dataset)
		}
	}
	out = append(out, w.strangeSnapshots()...)
	for _, uuid := range w.node.Slices() {
		if !slicesOf[uuid] {
			out = append(out, "partition "+uuid)
		}
	}
	parts, err := w.node.Partitions(w.node.Drive.Inventory().Name)
	w.must(err)
	if w.node.SPDK == nil && len(parts) != len(w.node.Slices()) {
		out = append(out, fmt.Sprintf("the kernel knows %d partitions of %d", len(parts), len(w.node.Slices())))
	}
	for _, s := range w.states() {
		if !exports[s.NQN] {
			out = append(out, "subsystem "+s.NQN)
		}
	}
	d := w.node.Device()
	if there := w.reload(d); there && len(partitions) == 0 && d.Status.ActiveBackend != "" && d.Status.ActiveBackend != v1alpha1.ActiveBackendNone {
		out = append(out, "activeBackend "+string(d.Status.ActiveBackend)+" of a drive without partitions")
	}
	if w.node.SPDK != nil && len(partitions) == 0 {
		if driver := w.node.Sysfs.Driver(d.Spec.PCIAddress); driver != pci.NVMe {
			out = append(out, "a drive without partitions has driver "+driver)
		}
	}
	return out
}

// strangeSnapshots are those that nothing asks for.
func (w *world) strangeSnapshots() []string {
	var all v1alpha1.SnapshotList
	w.must(w.api.List(w.t.Context(), &all))
	var out []string
	for _, s := range w.node.Pools.Snapshots() {
		asked := slices.ContainsFunc(all.Items, func(o v1alpha1.Snapshot) bool { return string(o.UID) == s.UID })
		if !asked && (!s.Deferred || len(s.Clones) == 0) {
			out = append(out, "snapshot "+s.Name)
		}
	}
	return out
}

// unfinished is what the objects ask for and the node does not have.
func (w *world) unfinished() []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	partitions, attachments := w.objects()
	sizes := w.node.SliceSizes()
	for i := range partitions {
		p := &partitions[i]
		s, _ := w.state(p)
		switch size := sizes[volume.SliceUUID(p)]; {
		case !p.DeletionTimestamp.IsZero():
			say("%s is still being deleted: %s", p.Name, message(p.Status.Conditions, v1alpha1.ConditionExported))
		case p.Status.State != v1alpha1.PartitionExported || condition(p.Status.Conditions, v1alpha1.ConditionExported) != "True/Exported":
			say("%s is %s: %s", p.Name, p.Status.State, message(p.Status.Conditions, v1alpha1.ConditionExported))
		case size != p.Spec.Size || p.Status.AllocatedCapacity != size:
			say("%s asks for %d bytes, has %d, and status says %d", p.Name, p.Spec.Size, size, p.Status.AllocatedCapacity)
		case len(s.Namespaces) != 1 || !s.Namespaces[0].Enabled || s.Namespaces[0].UUID.String() != identity.NamespaceUUID(string(p.UID)) || s.AllowAnyHost:
			say("%s is exported as %+v", p.Name, s)
		default:
			if want := volume.Hosts(p, ofVolume(p, attachments)); !slices.Equal(want, s.AllowedHosts) {
				say("%s admits %v, want %v", p.Name, s.AllowedHosts, want)
			}
		}
	}
	for _, v := range w.volumes() {
		s, _ := w.state(v)
		var size int64
		for _, z := range w.node.Pools.Zvols() {
			if z.GUID == v.Status.DatasetGUID {
				size = z.SizeBytes
			}
		}
		switch {
		case v.Status.State == v1alpha1.VolumeDestroyed:
		case !v.DeletionTimestamp.IsZero():
			say("%s is still being deleted: %s", v.Name, message(v.Status.Conditions, v1alpha1.ConditionExported))
		case v.Status.State != v1alpha1.VolumeReadyToPublish || condition(v.Status.Conditions, v1alpha1.ConditionExported) != "True/Exported":
			say("%s is %s: %s", v.Name, v.Status.State, message(v.Status.Conditions, v1alpha1.ConditionExported))
		case size != v.Spec.Capacity || v.Status.ActualCapacity != size:
			say("%s asks for %d bytes, has %d, and status says %d", v.Name, v.Spec.Capacity, size, v.Status.ActualCapacity)
		case len(s.Namespaces) != 1 || !s.Namespaces[0].Enabled || s.Namespaces[0].UUID.String() != v.Status.DeviceGUID || s.AllowAnyHost:
			say("%s is exported as %+v", v.Name, s)
		case !w.contained(v):
			say("%s is accounted with generation %d, which no sample has reached", v.Name, v.Status.AccountedGeneration)
		default:
			if want := volume.Hosts(v, ofVolume(v, attachments)); !slices.Equal(want, s.AllowedHosts) {
				say("%s admits %v, want %v", v.Name, s.AllowedHosts, want)
			}
		}
	}
	var snapshots v1alpha1.SnapshotList
	w.must(w.api.List(w.t.Context(), &snapshots))
	for _, s := range snapshots.Items {
		if !s.Status.ReadyToUse || condition(s.Status.Conditions, v1alpha1.ConditionReadyToUse) != "True/SnapshotTaken" {
			say("snapshot %s: %s", s.Name, message(s.Status.Conditions, v1alpha1.ConditionReadyToUse))
		}
	}
	for _, a := range attachments {
		if got := condition(a.Status.Conditions, v1alpha1.ConditionAccessReady); got != "True/Granted" {
			say("attachment %s to %s is %s", a.Name, a.Spec.NodeID, got)
		}
	}
	return out
}

// volumes reads all Volumes.
func (w *world) volumes() []*v1alpha1.Volume {
	w.t.Helper()
	var all v1alpha1.VolumeList
	w.must(w.api.List(w.t.Context(), &all))
	var out []*v1alpha1.Volume
	for i := range all.Items {
		out = append(out, &all.Items[i])
	}
	return out
}

// slices reads all partitions and Volumes.
func (w *world) slices() []v1alpha1.Slice {
	w.t.Helper()
	out, err := volume.Slices(w.t.Context(), w.api)
	w.must(err)
	return out
}

// contained tells whether the published sample of its pool contains the volume.
func (w *world) contained(v *v1alpha1.Volume) bool {
	w.t.Helper()
	n := w.node.StorageNode()
	w.reload(n)
	return v.Status.AccountedGeneration > 0 && slices.ContainsFunc(n.Status.Pools, func(p v1alpha1.PoolStatus) bool {
		return p.GUID == v.Spec.PoolGUID && p.SampleGeneration >= v.Status.AccountedGeneration
	})
}

func ofVolume(p v1alpha1.Slice, all []v1alpha1.NVMeVolumeAttachment) []v1alpha1.NVMeVolumeAttachment {
	return slices.DeleteFunc(slices.Clone(all), func(a v1alpha1.NVMeVolumeAttachment) bool { return !volume.Refers(&a, p) })
}

// settleUnless is settle that may fail with this text.
func (a *agent) settleUnless(text string) error {
	if err := a.settle(); err != nil && !strings.Contains(err.Error(), text) {
		return err
	}
	return nil
}

// effectSites are the places in the code of the agent, and of the target library
// that it uses, from which something outside the process is changed or a program
// is started.
func effectSites(t *testing.T) []string {
	t.Helper()
	const modules = "github.com/distort-io/distort/modules/"
	api := []volumetest.Effect{
		{On: "Client", Method: "Create"}, {On: "Client", Method: "Delete"}, {On: "Client", Method: "Patch"}, {On: "Client", Method: "Update"},
		{On: "Client.Status()", Method: "Patch"}, {On: "Client.Status()", Method: "Update"},
	}
	drive := []volumetest.Effect{{On: "run", Method: "Run"}, {On: "blocks", Method: "Zero"}}
	pools := []volumetest.Effect{{On: "m", Method: "run"}}
	configfs := []volumetest.Effect{{Method: "mkdir"}, {Method: "rmdir"}, {Method: "link"}, {Method: "unlink"}, {Method: "set"}, {Method: "write"}}
	var out []string
	for pkg, effects := range map[string][]volumetest.Effect{
		"agent/internal/partition": api, "agent/internal/access": api, "agent/internal/report": api,
		"agent/internal/pool": api, "agent/internal/poolvolume": api, "agent/internal/poolsnapshot": api, "agent/internal/zfs": pools,
		"agent/internal/carve/gpt": drive, "agent/internal/media": drive, "agent/internal/pci": {{On: "b", Method: "write"}},
		"nvmeof/kernel": configfs,
	} {
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", modules+pkg).Output()
		if err != nil {
			t.Fatalf("find %s: %v", pkg, err)
		}
		// session.go and osfs.go are below these calls.
		found, err := volumetest.SitesIn(strings.TrimSpace(string(dir)), effects, "session.go", "osfs.go")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			t.Errorf("%s has no effect: the names that are looked for are wrong", pkg)
		}
		out = append(out, found...)
	}
	return out
}

// spdkMethods are the methods of SPDK's that change something, as the code of the
// packages that the agent uses names them.
func spdkMethods(t *testing.T) []string {
	t.Helper()
	// The agent makes no snapshots, sets no limits and has no files for devices.
	unused := []string{"bdev_lvol_snapshot", "bdev_lvol_clone", "bdev_set_qos_limit", "bdev_aio_rescan"}
	name := regexp.MustCompile(`"(nvmf_[a-z_]+|bdev_(?:lvol|nvme|aio|set)_[a-z_]+)"`)
	var out []string
	for _, pkg := range []string{"spdk", "spdk/lvol", "spdk/drives"} {
		dir, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/distort-io/distort/modules/nvmeof/"+pkg).Output()
		if err != nil {
			t.Fatalf("find %s: %v", pkg, err)
		}
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				if reads := strings.Contains(m[1], "_get_") || strings.Contains(m[1], "_wait_"); !reads && !slices.Contains(unused, m[1]) {
					out = append(out, m[1])
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
