// Package pools tests in the lab the volumes that lie on a ZFS pool: zvols of the
// storage node's kernel, their snapshots, what is made of them, and that nothing is
// done to a pool that is not the node's own.
package pools

import (
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/install"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/e2e/internal/zpool"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	namespace = "e2e-pools"
	class     = "e2e-pools"
	// snapshotClass is the one that the chart makes.
	snapshotClass = "distort"
	domain        = "default"
	file          = flow.DataDir + "/file"
	fileMiB       = 4

	pool     = "tank"
	poolSize = "3G"
)

// parents are the datasets below the pool that stay when no volume is left.
var parents = []string{pool + "/distort", pool + "/distort/block"}

// world is what the parts share.
type world struct {
	*flow.Flow
	lab     *lab.Lab
	node    string
	storage *guestexec.Client
	// guid is the pool's.
	guid string
}

// TestPools runs its parts in order on one pool, which is replaced in the last one.
func TestPools(t *testing.T) {
	l := suite.Open(t)
	made := suite.Prepared(t, "pools")
	w := &world{Flow: suite.Flow(t, l, namespace), lab: l, node: "storage", storage: suite.Guest(t, l, "storage")}
	ctx := t.Context()
	suite.Must(t, l.ServeSnapshots(ctx, made))
	suite.Upgrade(t, l, made, install.Chart{Values: []string{"snapshots.enabled=true"}})

	suite.Must(t, zpool.Load(ctx, w.storage, made[prepare.StepZFS]))
	var err error
	w.guid, err = zpool.Create(ctx, w.storage, pool, poolSize)
	suite.Must(t, err)
	suite.Must(t, w.DeclarePools(ctx, w.node, domain, w.guid))
	_, err = w.WaitStorageNode(ctx, w.node, v1alpha1.ReasonObservationSucceeded)
	suite.Must(t, err)
	suite.Must(t, w.CreateClass(ctx, flow.Class{Name: class, Parameters: map[string]string{
		"target-backend": "zfs", "transport": "tcp", "csi.storage.k8s.io/fstype": "ext4",
	}}))
	for _, part := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"a volume that is restored has what the snapshot had", restored},
		{"a volume that is cloned goes its own way", cloned},
		{"pods on two nodes read one copy, and none writes", read},
		{"a zvol grows under its pod", grown},
		{"a zvol is given another compression under its pod", recompressed},
		{"a pool that nobody declared stops every change and no I/O", unowned("beside", importStranger, removeStranger)},
		{"a pool that becomes another one stops every change and no I/O", unowned("below", becomeAnother, becomeItself)},
		{"a source goes before what was made of it", sourceFirst},
		{"a volume waits for its only snapshot", snapshotKeeps},
		{"another pool of the same name is left alone", replaced},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(t, w) }) {
			return // what is left helps to see why
		}
	}
	suite.Must(t, w.DeleteClass(ctx, class))
	seen, err := w.NothingLeft(ctx)
	suite.Must(t, err)
	for _, place := range seen {
		t.Log(place)
	}
	suite.Upgrade(t, l, made, install.Chart{})
}

// provision makes a claim and waits for its volume.
func (w *world) provision(t *testing.T, claim flow.Claim) *v1alpha1.Volume {
	t.Helper()
	claim.Class = class
	suite.Must(t, w.CreateClaim(t.Context(), claim))
	volume, err := w.WaitPoolBound(t.Context(), claim.Name)
	suite.Must(t, err)
	return volume
}

// start starts the pod of a claim, which has its name.
func (w *world) start(t *testing.T, claim, node string) {
	t.Helper()
	_, err := w.StartPod(t.Context(), flow.Pod{Name: claim, Image: prepare.WorkloadImage, Claim: claim, Node: node})
	suite.Must(t, err)
}

// write fills the file of a pod anew and returns its checksum.
func (w *world) write(t *testing.T, pod string) string {
	t.Helper()
	sum, err := w.WriteFile(t.Context(), pod, file, fileMiB)
	suite.Must(t, err)
	return sum
}

// mustHave reads the file of a pod from the device and compares its checksum.
func (w *world) mustHave(t *testing.T, pod, node, want string) {
	t.Helper()
	suite.Must(t, w.DropCaches(t.Context(), node))
	got, err := w.Checksum(t.Context(), pod, file)
	suite.Must(t, err)
	if got != want {
		t.Errorf("checksum in pod %s is %s, want %s", pod, got, want)
	}
}

// mustHold compares what lies on the pool.
func (w *world) mustHold(t *testing.T, beside ...string) {
	t.Helper()
	got, err := zpool.Datasets(t.Context(), w.storage, pool)
	suite.Must(t, err)
	want := slices.Concat(parents, beside)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("pool %s has %s, want %s", pool, strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// first and second are the nodes of pods.
var first, second = layout.Consumers()[0], layout.Consumers()[1]
