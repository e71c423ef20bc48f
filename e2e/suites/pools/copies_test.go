package pools

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/e2e/internal/zpool"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// The claims of the first parts, and the snapshot of source from which restore is made.
const (
	source   = "source"
	snapshot = "snapshot"
	restore  = "restore"
	clone    = "clone"
)

// The pod writes on after the snapshot, which is not what the restored volume has.
func restored(t *testing.T, w *world) {
	volume := w.provision(t, flow.Claim{Name: source, Size: "256Mi"})
	w.start(t, source, first)
	old := w.write(t, source)
	taken, err := w.TakeSnapshot(t.Context(), snapshot, snapshotClass, source)
	suite.Must(t, err)
	w.mustHold(t, volume.Status.DatasetPath, taken.Status.BackendName)
	latest := w.write(t, source)
	if latest == old {
		t.Fatal("the file was not changed")
	}

	w.provision(t, flow.Claim{Name: restore, Size: "256Mi", From: flow.FromSnapshot(snapshot)})
	w.start(t, restore, second)
	w.mustHave(t, restore, second, old)
	w.mustHave(t, source, first, latest)
}

// A copy is taken while its source is mounted, and shares nothing with it but blocks.
func cloned(t *testing.T, w *world) {
	was := w.write(t, source)
	w.provision(t, flow.Claim{Name: clone, Size: "256Mi", From: flow.FromClaim(source)})
	w.start(t, clone, second)
	w.mustHave(t, clone, second, was)
	written := w.write(t, clone)
	w.mustHave(t, source, first, was)
	w.mustHave(t, clone, second, written)
}

// The snapshot was taken while its source was mounted, so the copy has a journal to
// replay, which the first of its readers does alone.
func read(t *testing.T, w *world) {
	const name = "readers"
	ctx := t.Context()
	was, err := w.Checksum(ctx, restore, file)
	suite.Must(t, err)
	volume := w.provision(t, flow.Claim{Name: name, Size: "320Mi", AccessMode: corev1.ReadOnlyMany, From: flow.FromSnapshot(snapshot)})
	pods := map[string]string{name + "-1": first, name + "-2": second}
	for pod, node := range pods {
		suite.Must(t, w.CreatePod(ctx, flow.Pod{Name: pod, Image: prepare.WorkloadImage, Claim: name, Node: node}))
	}
	for pod, node := range pods {
		suite.Must(t, w.WaitRunning(ctx, pod, node, 4*time.Minute))
		w.mustHave(t, pod, node, was)
		if out, err := w.Exec(ctx, pod, "sh", "-c", "echo x >"+flow.DataDir+"/more"); err == nil {
			t.Errorf("pod %s has written: %s", pod, out)
		}
		mib, err := w.FilesystemMiB(ctx, pod)
		suite.Must(t, err)
		if mib < 270 {
			t.Errorf("the filesystem in pod %s has %d MiB, want those of the 320 MiB of the claim less its own tables", pod, mib)
		}
		flags, err := suite.Guest(t, w.lab, node).Output(ctx, "sh", "-c", readOnly, volume.Status.TargetNQN)
		suite.Must(t, err)
		if strings.TrimSpace(flags) != "1" {
			t.Errorf("the device on %s takes writes: blockdev --getro says %q", node, flags)
		}
	}
	volume, err = w.PoolVolume(ctx, name)
	suite.Must(t, err)
	if !volume.Status.Filesystem.Recovered() {
		t.Errorf("two nodes read Volume %s, and it does not say that its journal was replayed: %+v", volume.Name, volume.Status.Filesystem)
	}
	for pod := range pods {
		suite.Must(t, w.DeletePod(ctx, pod))
	}
	suite.Must(t, w.DeleteClaim(ctx, name))
}

// readOnly prints whether the device of a subsystem takes no writes.
const readOnly = `for s in /sys/class/nvme-subsystem/*; do
	[ "$(cat $s/subsysnqn)" = "$0" ] || continue
	for n in $s/nvme*n*; do blockdev --getro /dev/$(basename $n); done
done`

// Zvol, device and filesystem: what Kubernetes says is what ZFS says.
func grown(t *testing.T, w *world) {
	was := w.write(t, source)
	before, err := w.FilesystemMiB(t.Context(), source)
	suite.Must(t, err)
	suite.Must(t, w.GrowClaim(t.Context(), source, "384Mi"))
	after, err := w.FilesystemMiB(t.Context(), source)
	suite.Must(t, err)
	t.Logf("filesystem grew from %d to %d MiB", before, after)
	if grew := after - before; grew < 96 {
		t.Errorf("the filesystem grew by %d MiB, want the 128 MiB of the claim less its own tables", grew)
	}
	w.mustHave(t, source, first, was)

	volume, err := w.PoolVolume(t.Context(), source)
	suite.Must(t, err)
	size, err := zpool.Property(t.Context(), w.storage, "volsize", volume.Status.DatasetPath)
	suite.Must(t, err)
	if want := strconv.Itoa(384 << 20); size != want || strconv.FormatInt(volume.Status.ActualCapacity, 10) != want {
		t.Errorf("the zvol has %s bytes and its Volume says %d, want %s", size, volume.Status.ActualCapacity, want)
	}
}

// The clones take over the snapshots that they were made of, and data outlives where
// it came from: first the source goes, then the snapshot, then one clone of two.
func sourceFirst(t *testing.T, w *world) {
	ctx := t.Context()
	kept := w.write(t, restore)
	for _, pod := range []string{source, clone} {
		suite.Must(t, w.DeletePod(ctx, pod))
	}
	suite.Must(t, w.DeleteClaim(ctx, source))
	w.mustHave(t, restore, second, kept)
	suite.Must(t, w.DeleteSnapshot(ctx, snapshot))
	w.mustHave(t, restore, second, kept)
	suite.Must(t, w.DeleteClaim(ctx, clone))
	w.mustHave(t, restore, second, kept)
	suite.Must(t, w.DeletePod(ctx, restore))
	suite.Must(t, w.DeleteClaim(ctx, restore))
	w.mustHold(t)
}

// Nobody can take over a snapshot that nothing was made of.
func snapshotKeeps(t *testing.T, w *world) {
	const name, only = "kept", "only"
	ctx := t.Context()
	volume := w.provision(t, flow.Claim{Name: name, Size: "64Mi"})
	taken, err := w.TakeSnapshot(ctx, only, snapshotClass, name)
	suite.Must(t, err)
	gone, err := w.RequestDeletion(ctx, name)
	suite.Must(t, err)
	suite.Must(t, w.WaitVolume(ctx, volume.Name, v1alpha1.ConditionExported, v1alpha1.ReasonHasDependants, taken.Name))
	w.mustHold(t, volume.Status.DatasetPath, taken.Status.BackendName)
	suite.Must(t, w.DeleteSnapshot(ctx, only))
	suite.Must(t, gone(ctx))
	w.mustHold(t)
}
