package volumes

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
)

// Two slices lie side by side: the first has no room behind it.
func growthRefused(t *testing.T, _ *lab.Lab, f *flow.Flow) {
	const name, next = "wedged", "wedge"
	bound := provision(t, f, map[string]string{"transport": "tcp"}, flow.Claim{Name: name, Size: "64Mi"})
	provision(t, f, map[string]string{"transport": "tcp"}, flow.Claim{Name: next, Size: "64Mi"})
	suite.Must(t, f.RequestSize(t.Context(), name, "128Mi"))
	message, err := f.WaitEvent(t.Context(), "PersistentVolumeClaim", name, "VolumeResizeFailed", "ResourceExhausted")
	suite.Must(t, err)
	t.Log(message)
	want := bound.Partition.Status.AllocatedCapacity
	suite.Must(t, flow.Eventually(t.Context(), "the slice is what it was", time.Minute, func(ctx context.Context) (string, error) {
		partition, err := f.Partition(ctx, name)
		if err != nil {
			return "", err
		}
		if asked, have := partition.Spec.Size, partition.Status.AllocatedCapacity; asked != want || have != want {
			return "asked " + strconv.FormatInt(asked, 10) + ", has " + strconv.FormatInt(have, 10), nil
		}
		return "", nil
	}))
	remove(t, f, name)
	remove(t, f, next)
}

// The slice grows at once, the filesystem when a node mounts it.
func grownOffline(t *testing.T, _ *lab.Lab, f *flow.Flow) {
	const name, file = "offline", flow.DataDir + "/file"
	pod := flow.Pod{Name: name, Claim: name, Node: layout.Consumers()[0]}
	provision(t, f, map[string]string{"transport": "tcp"}, flow.Claim{Name: name, Size: "64Mi"})
	start(t, f, pod)
	before, err := f.FilesystemMiB(t.Context(), name)
	suite.Must(t, err)
	want, err := f.WriteFile(t.Context(), name, file, 2)
	suite.Must(t, err)
	suite.Must(t, f.DeletePod(t.Context(), name))
	suite.Must(t, f.WaitDetached(t.Context(), name))

	suite.Must(t, f.RequestSize(t.Context(), name, "192Mi"))
	suite.Must(t, flow.Eventually(t.Context(), "the slice has grown", time.Minute, func(ctx context.Context) (string, error) {
		partition, err := f.Partition(ctx, name)
		if err != nil || partition.Status.AllocatedCapacity >= 192<<20 {
			return "", err
		}
		return fmt.Sprintf("it has %d bytes", partition.Status.AllocatedCapacity), nil
	}))
	start(t, f, pod)
	suite.Must(t, f.GrowClaim(t.Context(), name, "192Mi"))
	after, err := f.FilesystemMiB(t.Context(), name)
	suite.Must(t, err)
	t.Logf("filesystem grew from %d to %d MiB", before, after)
	if grown := after - before; grown < 96 {
		t.Errorf("the filesystem grew by %d MiB, want the 128 MiB of the claim less its own tables", grown)
	}
	got, err := f.Checksum(t.Context(), name, file)
	suite.Must(t, err)
	if got != want {
		t.Errorf("checksum after growth is %s, was %s", got, want)
	}
	remove(t, f, name, name)
}

func rawDeviceGrown(t *testing.T, _ *lab.Lab, f *flow.Flow) {
	const name = "raw-grown"
	provision(t, f, map[string]string{"transport": "rdma"}, flow.Claim{Name: name, Size: "64Mi", Block: true})
	start(t, f, flow.Pod{Name: name, Claim: name, Node: layout.Consumers()[0], Block: true})
	for _, step := range []struct {
		grow string
		mib  int
	}{{"", 64}, {"128Mi", 128}} {
		if step.grow != "" {
			suite.Must(t, f.GrowClaim(t.Context(), name, step.grow))
		}
		out, err := f.Exec(t.Context(), name, "sh", "-c", fmt.Sprintf("dd if=%s bs=1M 2>/dev/null | wc -c", flow.DevicePath))
		suite.Must(t, err)
		if want := strconv.Itoa(step.mib << 20); strings.TrimSpace(out) != want {
			t.Errorf("the pod reads %s bytes from its device, want %s", strings.TrimSpace(out), want)
		}
	}
	remove(t, f, name, name)
}
