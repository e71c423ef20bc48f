package badinput

import (
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
)

// foreignUUID is that of a filesystem that DISTORT did not make.
const foreignUUID = "5f0e1c1a-0000-4000-8000-00000000beef"

// TestContentOfAVolumeIsNeverFormattedOver puts something else on the device of
// a volume behind DISTORT's back, before its first use and after it.
func TestContentOfAVolumeIsNeverFormattedOver(t *testing.T) {
	l := suite.Open(t)
	f := suite.Flow(t, l, namespace)
	ctx := t.Context()
	storage := suite.Guest(t, l, "storage")
	drives := layout.Drives()[:1]
	suite.Must(t, f.ClaimDrives(ctx, drives))
	const class = "e2e-bad-content"
	suite.Must(t, f.CreateClass(ctx, flow.Class{Name: class, Parameters: map[string]string{
		"transport": "tcp", "csi.storage.k8s.io/fstype": "ext4", "check-filesystem": "true",
	}}))

	t.Run("a volume that is not blank at its first use", func(t *testing.T) {
		device := provision(t, f, storage, "fresh", class)
		output(t, storage, "mkfs.ext4", "-q", "-F", "-U", foreignUUID, device)
		refused(t, f, "fresh", "FailedPrecondition", "not blank", "ext4")
		if uuid := output(t, storage, "blkid", "-p", "-o", "value", "-s", "UUID", device); uuid != foreignUUID {
			t.Errorf("the filesystem on %s is %s now, was %s", device, uuid, foreignUUID)
		}
		remove(t, f, "fresh")
	})
	t.Run("a volume that has lost its recorded filesystem", func(t *testing.T) {
		device := provision(t, f, storage, "used", class)
		_, err := f.StartPod(ctx, flow.Pod{Name: "used", Image: prepare.WorkloadImage, Claim: "used", Node: layout.Consumers()[0]})
		suite.Must(t, err)
		suite.Must(t, f.DeletePod(ctx, "used"))
		// The unmount writes to the device once more, after the pod is gone.
		suite.Must(t, f.WaitDetached(ctx, "used"))
		output(t, storage, "wipefs", "--all", device)
		refused(t, f, "used", "FailedPrecondition", "recorded filesystem is ext4")
		if text := output(t, storage, "wipefs", device); text != "" {
			t.Errorf("%s was formatted: %s", device, text)
		}
		remove(t, f, "used")
	})
	t.Run("a volume whose filesystem is damaged", func(t *testing.T) {
		device := provision(t, f, storage, "damaged", class)
		_, err := f.StartPod(ctx, flow.Pod{Name: "damaged", Image: prepare.WorkloadImage, Claim: "damaged", Node: layout.Consumers()[0]})
		suite.Must(t, err)
		suite.Must(t, f.DeletePod(ctx, "damaged"))
		suite.Must(t, f.WaitDetached(ctx, "damaged"))
		// Its lost+found is gone: the kernel mounts that, e2fsck does not like it.
		output(t, storage, "debugfs", "-w", "-R", "clri <11>", device)
		// debugfs leaves that in the cache of its node, which the target goes past.
		output(t, storage, "blockdev", "--flushbufs", device)
		refused(t, f, "damaged", "FailedPrecondition", "filesystem is damaged", "e2fsck")
		if code := output(t, storage, "sh", "-c", `blockdev --flushbufs "$0"; e2fsck -n -f "$0" >/dev/null 2>&1; echo $?`, device); code != "4" {
			t.Errorf("e2fsck ends with %s, want 4: the damage is as it was", code)
		}
		remove(t, f, "damaged")
	})
	suite.Must(t, f.DeleteClass(ctx, class))
	suite.Must(t, f.ReleaseDrives(ctx, drives))
}

// provision makes a claim and returns the device of its slice on the storage
// node.
func provision(t *testing.T, f *flow.Flow, storage *guestexec.Client, name, class string) string {
	t.Helper()
	suite.Must(t, f.CreateClaim(t.Context(), flow.Claim{Name: name, Class: class, Size: "64Mi"}))
	bound, err := f.WaitBound(t.Context(), name, time.Now())
	suite.Must(t, err)
	return output(t, storage, "findfs", "PARTUUID="+bound.Partition.Status.Backend.PartitionUUID)
}

// refused starts a pod that must not get its volume.
func refused(t *testing.T, f *flow.Flow, name string, parts ...string) {
	t.Helper()
	pod := name + "-refused"
	suite.Must(t, f.CreatePod(t.Context(), flow.Pod{Name: pod, Image: prepare.WorkloadImage, Claim: name, Node: layout.Consumers()[0]}))
	message, err := f.WaitEvent(t.Context(), "Pod", pod, "FailedMount", parts...)
	suite.Must(t, err)
	t.Log(message)
	suite.Must(t, f.DeletePod(t.Context(), pod))
}

func remove(t *testing.T, f *flow.Flow, claim string) {
	t.Helper()
	suite.Must(t, f.DeleteClaim(t.Context(), claim))
}

func output(t *testing.T, guest *guestexec.Client, args ...string) string {
	t.Helper()
	out, err := guest.Output(t.Context(), args...)
	suite.Must(t, err)
	return strings.TrimSpace(out)
}
