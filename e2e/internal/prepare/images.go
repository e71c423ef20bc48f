package prepare

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/elfdeps"
	"github.com/distort-io/distort/e2e/internal/oci"
)

// References of the lab's images. There is no registry of that name: the images
// are in the guests' stores before they boot.
const (
	imagePrefix      = "distort.local/"
	PauseImage       = imagePrefix + "pause:lab"
	WorkloadImage    = imagePrefix + "workload:lab"
	ProvisionerImage = imagePrefix + "csi-provisioner:v5.3.0"
	AttacherImage    = imagePrefix + "csi-attacher:v4.13.0"
	ResizerImage     = imagePrefix + "csi-resizer:v1.14.0"
	SnapshotterImage = imagePrefix + "csi-snapshotter:v8.7.0"
	productTag       = ":dev"
)

// ImageSuffix ends the names of image files in artifacts.
const ImageSuffix = ".oci.tar"

// productPath is the search path in images with tools.
const productPath = "PATH=/usr/sbin:/usr/bin"

// imageTools are the programs in the images of agent and CSI driver: reading
// and writing partition tables, probing, making, checking and growing file
// systems, and ZFS.
var imageTools = []string{
	"/usr/sbin/sfdisk", "/usr/sbin/blkid", "/usr/sbin/wipefs", "/usr/bin/partx", "/usr/bin/lsblk", "/usr/sbin/blockdev",
	"/usr/bin/mount", "/usr/bin/umount", "/usr/bin/findmnt", "/usr/bin/udevadm", "/usr/bin/kmod",
	"/usr/sbin/mke2fs", "/usr/sbin/e2fsck", "/usr/sbin/resize2fs", "/usr/sbin/tune2fs", "/usr/sbin/dumpe2fs",
	"/usr/sbin/mkfs.xfs", "/usr/sbin/xfs_repair", "/usr/sbin/xfs_growfs", "/usr/sbin/xfs_db", "/usr/sbin/xfs_io",
	"/usr/sbin/zpool", "/usr/sbin/zfs",
}

// toolLinks are further names of tools.
var toolLinks = map[string]string{
	"/usr/sbin/mkfs.ext4": "mke2fs", "/usr/sbin/fsck.ext4": "e2fsck", "/usr/sbin/modprobe": "../bin/kmod",
	"/bin": "usr/bin", "/sbin": "usr/sbin", "/lib": "usr/lib", "/lib64": "usr/lib64",
}

// productImage is the image of the program of a module; one with tools gets the
// layer of imageTools beneath.
type productImage struct {
	module string
	tools  bool
	user   string
}

// productImages are the programs of DISTORT.
var productImages = []productImage{
	{module: "manager", user: "65532:65532"},
	{module: "agent", tools: true},
	{module: "csi", tools: true},
}

// toolsLayer is the layer in the artifact of baseStep.
const toolsLayer = "tools.tar"

// baseStep makes the layer with the tools and the images that do not come from
// this checkout's product.
func baseStep() Step {
	return Step{
		Name: "base-images", Summary: "images of sidecars, pause and workloads", Needs: []string{"guest-tree", "provisioner", StepAttacher}, Lane: LaneCompile,
		Key: func(_ context.Context, w *Workshop) (string, error) {
			key := cache.NewKey("base-images 2").Strings("tools", imageTools).Tree(filepath.Join(w.Repo, "e2e", "cmd", "pause"), "*.go")
			if err := w.AddArtifacts(key, "guest-tree", "provisioner", StepAttacher); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: buildBaseImages,
	}
}

func buildBaseImages(ctx context.Context, w *Workshop, dir string) error {
	tree, err := w.Artifact("guest-tree")
	if err != nil {
		return err
	}
	root := elfdeps.NewTree(filepath.Join(tree, guestTree))
	tools, err := toolEntries(root)
	if err != nil {
		return err
	}
	if _, err := oci.BuildLayer(filepath.Join(dir, toolsLayer), tools); err != nil {
		return err
	}
	pause := filepath.Join(dir, "pause")
	if err := w.Run.With("CGO_ENABLED=0").In(w.Repo).Run(ctx, "go", "build", "-trimpath", "-ldflags", strip, "-o", pause, "./e2e/cmd/pause"); err != nil {
		return err
	}
	if err := scratchImage(dir, PauseImage, pause, "/pause", ""); err != nil {
		return err
	}
	for _, image := range []struct{ step, reference, program string }{
		{"provisioner", ProvisionerImage, "csi-provisioner"},
		{StepAttacher, AttacherImage, "csi-attacher"},
		{StepAttacher, SnapshotterImage, "csi-snapshotter"},
		{"provisioner", ResizerImage, "csi-resizer"},
	} {
		source, err := w.Artifact(image.step)
		if err != nil {
			return err
		}
		if err := scratchImage(dir, image.reference, filepath.Join(source, image.program), "/"+image.program, "65532:65532"); err != nil {
			return err
		}
	}
	return workloadImage(ctx, root, dir)
}

// toolEntries are the tools, their libraries and configuration.
func toolEntries(root elfdeps.Tree) ([]oci.Entry, error) {
	libraries, err := root.Libraries(imageTools)
	if err != nil {
		return nil, err
	}
	entries := []oci.Entry{
		{Path: "/tmp", Dir: true, Mode: 0o1777}, {Path: "/dev", Dir: true}, {Path: "/proc", Dir: true}, {Path: "/sys", Dir: true}, {Path: "/run", Dir: true},
		{Path: "/etc/passwd", Mode: 0o644, Content: "root:x:0:0:root:/:/nonexistent\nnonroot:x:65532:65532:nonroot:/:/nonexistent\n"},
	}
	for name, target := range toolLinks {
		entries = append(entries, oci.Entry{Path: name, Link: target})
	}
	for _, name := range append(append([]string{"/etc/mke2fs.conf"}, imageTools...), libraries...) {
		source, err := root.HostPath(name)
		if err != nil {
			return nil, err
		}
		// /lib, /lib64 and their like are links to places below /usr.
		if strings.HasPrefix(name, "/lib") {
			name = "/usr" + name
		}
		entries = append(entries, oci.Entry{Path: name, Source: source, Mode: modeOf(name)})
	}
	return entries, nil
}

func modeOf(name string) int64 {
	if strings.HasPrefix(name, "/etc/") {
		return 0o644
	}
	return 0o755
}

// scratchImage writes an image that holds one static program.
func scratchImage(dir, reference, program, entrypoint, user string) error {
	layer, err := oci.BuildLayer(program+".layer", []oci.Entry{
		{Path: entrypoint, Source: program}, {Path: "/tmp", Dir: true, Mode: 0o1777},
	})
	if err != nil {
		return err
	}
	defer os.Remove(layer.Path)
	_, err = oci.Write(filepath.Join(dir, imageFile(reference)), oci.Image{
		Reference: reference, Layers: []oci.Layer{layer}, Entrypoint: []string{entrypoint}, User: user,
	})
	return err
}

// workloadImage writes the image of the lab's pods: busybox and its applets.
func workloadImage(ctx context.Context, root elfdeps.Tree, dir string) error {
	busybox, err := root.HostPath("/usr/bin/busybox")
	if err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("list busybox's applets: %w", err)
	}
	entries := []oci.Entry{{Path: "/bin/busybox", Source: busybox}, {Path: "/tmp", Dir: true, Mode: 0o1777}, {Path: "/data", Dir: true}}
	for _, applet := range strings.Fields(string(applets)) {
		if applet != "busybox" {
			entries = append(entries, oci.Entry{Path: "/bin/" + applet, Link: "busybox"})
		}
	}
	layer, err := oci.BuildLayer(filepath.Join(dir, "workload.layer"), entries)
	if err != nil {
		return err
	}
	defer os.Remove(layer.Path)
	_, err = oci.Write(filepath.Join(dir, imageFile(WorkloadImage)), oci.Image{
		Reference: WorkloadImage, Layers: []oci.Layer{layer}, Entrypoint: []string{"/bin/sh"}, Env: []string{"PATH=/bin"},
	})
	return err
}

// imageFile returns the file name of an image.
func imageFile(reference string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(reference, imagePrefix), ":")
	return name + ImageSuffix
}
