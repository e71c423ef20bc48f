package volumes

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/e2e/internal/driver"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/suite"
)

// The filesystem has few inodes and no reserve, the mount gives blocks back, and
// the volume belongs to the group of a pod that is not root.
func filesystemParameters(t *testing.T, l *lab.Lab, f *flow.Flow) {
	const name, user, sizeMiB, bytesPerInode = "filesystem", 2000, 64, 65536
	node := layout.Consumers()[0]
	bound := provision(t, f, map[string]string{
		"transport": "tcp", "csi.storage.k8s.io/fstype": "ext4", "check-filesystem": "true",
		"mkfs-options": fmt.Sprintf("-i %d -m 0", bytesPerInode),
	}, flow.Claim{Name: name, Size: fmt.Sprintf("%dMi", sizeMiB)}, "noatime", "discard")
	pod := flow.Pod{Name: name, Claim: name, Node: node, User: user}
	start(t, f, pod)
	_, err := f.WriteFile(t.Context(), name, flow.DataDir+"/file", 2)
	suite.Must(t, err)

	stat := func(args ...string) string {
		t.Helper()
		out, err := f.Exec(t.Context(), name, append([]string{"stat"}, args...)...)
		suite.Must(t, err)
		return strings.TrimSpace(out)
	}
	if got := stat("-c", "%g", flow.DataDir); got != strconv.Itoa(user) {
		t.Errorf("the volume belongs to group %s, want %d", got, user)
	}
	inodes, err := strconv.Atoi(stat("-f", "-c", "%c", flow.DataDir))
	suite.Must(t, err)
	if most := sizeMiB << 20 / bytesPerInode; inodes > most {
		t.Errorf("the filesystem has %d inodes, want at most %d", inodes, most)
	}
	host := suite.Guest(t, l, node)
	mount := stagedAt(t, host, bound.Partition.Status.NQN)
	reserved, err := host.Output(t.Context(), "sh", "-c", `tune2fs -l "/dev/$0" | grep "Reserved block count"`, mount.device)
	suite.Must(t, err)
	if _, count, _ := strings.Cut(reserved, ":"); strings.TrimSpace(count) != "0" {
		t.Errorf("%s, want none", strings.TrimSpace(reserved))
	}
	for _, option := range []string{"noatime", "discard"} {
		if !slices.Contains(mount.options, option) {
			t.Errorf("%s is mounted with %v, without %s", mount.target, mount.options, option)
		}
	}
	trimmed, err := host.Output(t.Context(), "fstrim", "--verbose", mount.target)
	suite.Must(t, err)
	t.Log(strings.TrimSpace(trimmed))

	// The second use finds a filesystem, which is checked before it is mounted.
	suite.Must(t, f.DeletePod(t.Context(), name))
	suite.Must(t, f.WaitDetached(t.Context(), name))
	start(t, f, pod)
	remove(t, f, name, name)
}

// mounted is where a volume is mounted on a host, and how.
type mounted struct {
	device, target string
	options        []string
}

// stagedAt finds the staging mount of a subsystem's only namespace.
func stagedAt(t *testing.T, host *guestexec.Client, nqn string) mounted {
	t.Helper()
	const script = `for s in /sys/class/nvme-subsystem/*; do
	[ "$(cat $s/subsysnqn)" = "$0" ] || continue
	for n in $s/nvme*n*; do findmnt --noheadings --output TARGET,OPTIONS --source /dev/$(basename $n) | grep globalmount | sed "s,^,$(basename $n) ,"; done
done; true`
	out, err := host.Output(t.Context(), "sh", "-c", script, nqn)
	suite.Must(t, err)
	fields := strings.Fields(out)
	if len(fields) != 3 {
		t.Fatalf("mounts of %s are %q, want one", nqn, out)
	}
	return mounted{device: fields[0], target: fields[1], options: strings.Split(fields[2], ",")}
}

// The driver is asked while nothing is wrong, after the kernel has found an
// error in the filesystem, and after the device has gone.
func health(t *testing.T, l *lab.Lab, f *flow.Flow) {
	const name = "health"
	node := layout.Consumers()[0]
	host := suite.Guest(t, l, node)
	bound := provision(t, f, map[string]string{"transport": "tcp", "csi.storage.k8s.io/fstype": "ext4"},
		flow.Claim{Name: name, Size: "64Mi"}, "errors=remount-ro")
	start(t, f, flow.Pod{Name: name, Claim: name, Node: node})
	nqn := bound.Partition.Status.NQN
	says := func(want ...string) {
		t.Helper()
		suite.Must(t, flow.Eventually(t.Context(), fmt.Sprintf("health is %q", want), 30*time.Second, func(ctx context.Context) (string, error) {
			found, err := driver.Health(ctx, host, node, bound.Handle)
			if err != nil {
				return "", err
			}
			var got []string
			for _, entry := range found {
				got = append(got, entry.GetStatus().String()+" "+entry.GetReason())
			}
			if slices.Equal(got, want) {
				return "", nil
			}
			return fmt.Sprint(found), nil
		}))
	}
	says()
	_, err := host.Pipe(t.Context(), strings.NewReader("lab"), "tee", filepath.Join("/sys/fs/ext4", stagedAt(t, host, nqn).device, "trigger_fs_error"))
	suite.Must(t, err)
	says(csi.VolumeHealthErrorType_DEGRADED.String() + " FilesystemErrors")
	_, err = host.Pipe(t.Context(), strings.NewReader("1"), "tee", controllerOf(t, host, nqn)+"/delete_controller")
	suite.Must(t, err)
	says(csi.VolumeHealthErrorType_INACCESSIBLE.String() + " NotConnected")
	remove(t, f, name, name)
}
