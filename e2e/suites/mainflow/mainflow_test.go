// Package mainflow tests the main job in the lab: a claim becomes a mounted
// NVMe-oF volume, its data survives the pod and the node, and nothing is left.
package mainflow

import (
	"testing"
	"time"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
)

const (
	namespace = "e2e-mainflow"
	file      = flow.DataDir + "/file"
	fileMiB   = 4
)

// TestVolumes runs its parts in order: drives are claimed for all of them and
// released at the end, when every trace must be gone.
func TestVolumes(t *testing.T) {
	f := suite.Flow(t, suite.Open(t), namespace)
	ctx := t.Context()
	drives := layout.Drives()
	if err := f.ClaimDrives(ctx, drives); err != nil {
		t.Fatal(err)
	}
	for _, v := range []volume{
		{transport: "tcp", filesystem: "ext4", grow: true},
		{transport: "tcp", filesystem: "xfs"},
		{transport: "rdma", filesystem: "ext4"},
		{transport: "rdma", filesystem: "xfs", grow: true},
	} {
		t.Run("data written over "+v.name()+" is there on another node", func(t *testing.T) {
			keepsData(t, f, v)
		})
	}
	t.Run("drives are released and nothing is left", func(t *testing.T) {
		if err := f.ReleaseDrives(ctx, drives); err != nil {
			t.Fatal(err)
		}
		seen, err := f.NothingLeft(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range seen {
			t.Log(place)
		}
	})
}

// volume is what a part of the test asks for; grow makes it larger in the end.
type volume struct {
	transport, filesystem string
	grow                  bool
}

func (v volume) name() string { return v.transport + "-" + v.filesystem }

func keepsData(t *testing.T, f *flow.Flow, v volume) {
	ctx := t.Context()
	name, class, nodes := v.name(), "e2e-"+v.name(), layout.Consumers()
	suite.Must(t, f.CreateClass(ctx, flow.Class{Name: class, Parameters: map[string]string{
		"transport": v.transport, "csi.storage.k8s.io/fstype": v.filesystem,
	}}))
	since := time.Now()
	suite.Must(t, f.CreateClaim(ctx, flow.Claim{Name: name, Class: class, Size: "512Mi"}))
	bound, err := f.WaitBound(ctx, name, since)
	suite.Must(t, err)
	t.Logf("PVC to Exported %s, to Bound %s", bound.Exported, bound.Bound)

	started, err := f.StartPod(ctx, flow.Pod{Name: name, Image: prepare.WorkloadImage, Claim: name, Node: nodes[0]})
	suite.Must(t, err)
	t.Logf("scheduled to running %s", started.Running-started.Scheduled)
	want, err := f.WriteFile(ctx, name, file, fileMiB)
	suite.Must(t, err)

	suite.Must(t, f.DeletePod(ctx, name))
	// Kubernetes would try to attach it meanwhile, and then wait for its next try.
	suite.Must(t, f.WaitDetached(ctx, name))
	_, err = f.StartPod(ctx, flow.Pod{Name: name, Image: prepare.WorkloadImage, Claim: name, Node: nodes[1]})
	suite.Must(t, err)
	got, err := f.Checksum(ctx, name, file)
	suite.Must(t, err)
	if got != want {
		t.Errorf("checksum on %s is %s, was %s on %s", nodes[1], got, want, nodes[0])
	}

	if v.grow {
		grows(t, f, name, want)
	}
	suite.Must(t, f.DeletePod(ctx, name))
	suite.Must(t, f.DeleteClaim(ctx, name))
	suite.Must(t, f.DeleteClass(ctx, class))
}

// grows makes a volume larger under its pod: partition, device and filesystem.
func grows(t *testing.T, f *flow.Flow, name, checksum string) {
	t.Helper()
	ctx := t.Context()
	before, err := f.FilesystemMiB(ctx, name)
	suite.Must(t, err)
	suite.Must(t, f.GrowClaim(ctx, name, "768Mi"))
	after, err := f.FilesystemMiB(ctx, name)
	suite.Must(t, err)
	t.Logf("filesystem grew from %d to %d MiB", before, after)
	if grown := after - before; grown < 200 {
		t.Errorf("the filesystem grew by %d MiB, want the 256 MiB of the claim less its own tables", grown)
	}
	got, err := f.Checksum(ctx, name, file)
	suite.Must(t, err)
	if got != checksum {
		t.Errorf("checksum after growth is %s, was %s", got, checksum)
	}
}
