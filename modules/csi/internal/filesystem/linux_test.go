package filesystem_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
)

// inNamespace marks the test process that has a mount table of its own.
const inNamespace = "DISTORT_TEST_MOUNT_NAMESPACE"

// ofImage is the file behind its device.
const ofImage = "DISTORT_TEST_IMAGE"

// life is what one type of filesystem needs for the test, and gets. Sizes are in
// bytes; mkfs.xfs makes nothing below 300 MiB.
type life struct {
	tools       []string
	size, grown int64
	mkfs, mount []string
}

var lives = map[filesystem.Type]life{
	filesystem.Ext4: {
		tools: []string{"mkfs.ext4", "resize2fs", "e2fsck"}, size: 64 << 20, grown: 96 << 20,
		mkfs: []string{"-m", "1", "-E", "stride=4"}, mount: []string{"noatime", "nosuid", "errors=remount-ro"},
	},
	filesystem.XFS: {
		tools: []string{"mkfs.xfs", "xfs_growfs", "xfs_repair"}, size: 320 << 20, grown: 480 << 20,
		mount: []string{"noatime", "nosuid"},
	},
}

// TestOnTheRunningHost is the whole life of a volume on a real block device:
// the fakes of the other tests are held against it.
func TestOnTheRunningHost(t *testing.T) {
	for fs, life := range lives {
		t.Run(string(fs), func(t *testing.T) { onTheRunningHost(t, fs, life) })
	}
}

func onTheRunningHost(t *testing.T, fs filesystem.Type, life life) {
	if os.Getenv(inNamespace) == "" {
		if os.Geteuid() != 0 {
			t.Skip("mounting needs root; the end-to-end suite runs the same in its guests")
		}
		for _, tool := range append([]string{"unshare", "losetup", "blkid"}, life.tools...) {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skipf("%v; the end-to-end suite runs the same in its guests", err)
			}
		}
		image := filepath.Join(t.TempDir(), "image")
		must(t, os.WriteFile(image, nil, 0o600))
		must(t, os.Truncate(image, life.size))
		device, err := exec.Command("losetup", "-f", "--show", "--", image).Output()
		if err != nil {
			t.Skipf("no loop device here (%v); the end-to-end suite runs the same in its guests", err)
		}
		path := strings.TrimSpace(string(device))
		defer func() { must(t, exec.Command("losetup", "-d", path).Run()) }()
		again := exec.Command("unshare", "-m", os.Args[0], "-test.run=^TestOnTheRunningHost$/^"+string(fs)+"$", "-test.v")
		again.Env = append(os.Environ(), inNamespace+"="+path, ofImage+"="+image)
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	device := os.Getenv(inNamespace)
	h := filesystem.New(filesystem.Options{})
	number, err := filesystem.LinuxDevices{}.Number(device)
	must(t, err)
	is := func(n blockdev.Number) bool { return n == number }

	c, err := h.Probe(t.Context(), device)
	if err != nil || !c.Blank {
		t.Fatalf("new device: %+v, %v, want blank", c, err)
	}
	must(t, h.Format(t.Context(), filesystem.Format{
		Device: device, Type: fs, UUID: uuid, Zeroed: true, Options: life.mkfs,
	}))
	if c, err = h.Probe(t.Context(), device); err != nil || !c.Is(fs, uuid) {
		t.Fatalf("after mkfs: %+v, %v", c, err)
	}

	dir := t.TempDir()
	staging, target, node := filepath.Join(dir, "a staging path"), filepath.Join(dir, "target"), filepath.Join(dir, "node")
	must(t, h.MakeDir(staging))
	options, err := filesystem.ParseMountOptions(fs, life.mount)
	must(t, err)
	for range 2 {
		must(t, h.MountDevice(t.Context(), device, is, staging, fs, options))
		must(t, h.MakeDir(target))
		must(t, h.Bind(t.Context(), staging, target, true))
		must(t, h.MakeFile(node))
		must(t, h.BindDevice(t.Context(), device, is, node))
	}
	for _, path := range []string{staging, target, node} {
		if m, err := h.MountsAt(path); err != nil || len(m) != 1 {
			t.Errorf("%s: %v, %v, want one mount", path, m, err)
		}
	}
	if m, _ := h.MountsAt(target); !strings.Contains(strings.Join(m[0].Options, ","), "nosuid") {
		t.Errorf("read-only bind lost nosuid: %v", m[0].Options)
	}
	must(t, os.WriteFile(filepath.Join(staging, "f"), []byte("data"), 0o600))
	if err := os.WriteFile(filepath.Join(target, "f"), nil, 0o600); err == nil {
		t.Error("wrote through the read-only bind")
	}
	growOnTheRunningHost(t, h, life, device, staging)
	if err := h.Check(t.Context(), device, fs); !errors.Is(err, filesystem.ErrInUse) {
		t.Errorf("checked while mounted: %v", err)
	}
	for range 2 {
		for _, path := range []string{node, target, staging} {
			must(t, h.Unmount(t.Context(), path))
			must(t, h.Remove(path))
		}
	}
	must(t, h.Check(t.Context(), device, fs))
}

// growOnTheRunningHost grows the mounted filesystem by half.
func growOnTheRunningHost(t *testing.T, h *filesystem.Host, life life, device, mountpoint string) {
	t.Helper()
	old, grown := life.size, life.grown
	mounted, err := h.MountsAt(mountpoint)
	must(t, err)
	if size, err := h.Grow(t.Context(), mounted[0], old); err != nil || size != old {
		t.Fatalf("found to have %d bytes, %v, want %d", size, err, old)
	}
	if !mayResize(t) {
		t.Log("growing needs CAP_SYS_RESOURCE; the end-to-end suite runs the same in its guests")
		return
	}
	before, err := h.Usage(t.Context(), mountpoint)
	must(t, err)
	must(t, os.Truncate(os.Getenv(ofImage), grown))
	must(t, exec.Command("losetup", "-c", device).Run())
	for range 2 {
		if size, err := h.Grow(t.Context(), mounted[0], grown); err != nil || size != grown {
			t.Fatalf("grown to %d, %v, want %d", size, err, grown)
		}
	}
	if after, err := h.Usage(t.Context(), mountpoint); err != nil || after.Bytes.Total < before.Bytes.Total+(grown-old)*3/4 {
		t.Errorf("%+v, %v after growing by %d bytes, before %+v", after, err, grown-old, before)
	}
}

// mayResize tells whether this process has CAP_SYS_RESOURCE.
func mayResize(t *testing.T) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, found := strings.Cut(string(status), "\nCapEff:\t")
	mask, err := strconv.ParseUint(strings.SplitN(rest, "\n", 2)[0], 16, 64)
	if !found || err != nil {
		t.Fatalf("no capabilities in %q", status)
	}
	return mask&(1<<unix.CAP_SYS_RESOURCE) != 0
}
