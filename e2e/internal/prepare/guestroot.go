package prepare

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/debian"
)

// guestPackages are installed in the guests' root. What a node of a real
// cluster has: udev, network and storage tools, runc, CNI plugins. busybox is
// there for the image of the lab's workloads. The programs of ZFS, and those
// libraries of it that the release has in an older version, are of the suite that
// its modules are built from (zfsStep).
var guestPackages = []string{
	"nvme-cli", "rdma-core", "e2fsprogs", "xfsprogs", "util-linux", "fdisk", "mount", "udev", "kmod", "iproute2", "iptables",
	"iputils-ping", "procps", "runc", "containernetworking-plugins", "ca-certificates", "busybox-static",
	"zfsutils-linux/" + kernelSuite, "libuutil3linux/" + kernelSuite, "libnvpair3linux/" + kernelSuite,
}

// guestExcludes are files of these packages that are left out: texts, and a rule of
// udev that starts a script for each disk, to name it by its place in an enclosure.
var guestExcludes = []string{
	"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/lib/udev/rules.d/69-vdev.rules",
}

// guestTree is the root file system in the artifact of guestTreeStep.
const guestTree = "tree"

// guestTreeStep installs the guests' root into a directory. Files of images are
// taken from it too.
func guestTreeStep() Step {
	return Step{
		Name: "guest-tree", Summary: "Debian " + release + " for the guests", Needs: []string{"packages"}, Lane: LaneDebian,
		Key: func(context.Context, *Workshop) (string, error) {
			return cache.NewKey("guest-tree 2").String("release", release).Strings("packages", guestPackages).Strings("excludes", guestExcludes).Sum()
		},
		Build: func(ctx context.Context, w *Workshop, dir string) error {
			sources, err := releaseSources(zfsComponent)
			if err != nil {
				return err
			}
			args := []string{"--mode=root", "--variant=minbase", "--include=" + strings.Join(guestPackages, ","), `--aptopt=Apt::Install-Recommends "false"`}
			for _, path := range guestExcludes {
				args = append(args, "--dpkgopt=path-exclude="+path)
			}
			return w.Run.Pipe(ctx, strings.NewReader(debian.Format(sources)), w.Run.Log, "mmdebstrap",
				append(args, release, filepath.Join(dir, guestTree), "-")...)
		},
	}
}
