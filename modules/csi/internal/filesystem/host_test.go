package filesystem_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const (
	disk = "/dev/nvme7n1"
	uuid = "aaaaaaaa-0000-4000-8000-00000000000a"
	size = 64 << 20
)

var number = blockdev.Number{Major: 259, Minor: 7}

func is(n blockdev.Number) bool { return n == number }

func newHost(t *testing.T) (*filesystemtest.Host, *filesystem.Host) {
	t.Helper()
	fake := filesystemtest.New(func(path string) (filesystemtest.Device, bool) {
		switch path {
		case disk:
			return filesystemtest.Device{Medium: "m", Number: number, Size: size}, true
		case "/dev/nvme8n1":
			return filesystemtest.Device{Medium: "other", Number: blockdev.Number{Major: 259, Minor: 8}, Size: size}, true
		}
		return filesystemtest.Device{}, false
	})
	return fake, filesystem.New(fake.Options())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ST16: blank is what was read to be blank, nothing else.
func TestProbe(t *testing.T) {
	for name, test := range map[string]struct {
		medium  filesystemtest.Medium
		blank   bool
		says    string
		wantErr error
	}{
		"never written":          {blank: true},
		"our filesystem":         {medium: filesystemtest.Medium{Type: "ext4", UUID: uuid}, says: "TYPE=ext4"},
		"data at the start":      {medium: filesystemtest.Medium{Data: map[int64]byte{0: 1}}, says: "data at byte 0"},
		"data in the middle":     {medium: filesystemtest.Medium{Data: map[int64]byte{size/2 + 7: 1}}, says: "data at byte"},
		"backup GPT at the end":  {medium: filesystemtest.Medium{Data: map[int64]byte{size - 512: 'E'}}, says: "data at byte 67108352"},
		"unreadable, blkid is 2": {medium: filesystemtest.Medium{ReadError: unix.EIO}, wantErr: unix.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			fake, h := newHost(t)
			fake.Change("m", func(m *filesystemtest.Medium) { *m = test.medium })
			c, err := h.Probe(t.Context(), disk)
			if !errors.Is(err, test.wantErr) || c.Blank != test.blank || !strings.Contains(c.Description, test.says) {
				t.Errorf("got %+v, %v; want blank %t, %q, %v", c, err, test.blank, test.says, test.wantErr)
			}
			if err != nil && c.Blank {
				t.Error("an error with a blank device")
			}
		})
	}
}

// exits answers every command with one code.
type exits struct {
	command.Runner
	out  string
	code int
}

func (e exits) Run(context.Context, string, ...string) ([]byte, error) {
	if e.code == 0 {
		return []byte(e.out), nil
	}
	return nil, &command.ExitError{Name: "blkid", Code: e.code}
}

func TestProbeUnderstandsBlkid(t *testing.T) {
	fake, _ := newHost(t)
	for name, test := range map[string]struct {
		runner exits
		want   filesystem.Content
		fails  bool
	}{
		"usage error is no answer": {runner: exits{code: 4}, fails: true},
		"ambiguous is not blank":   {runner: exits{code: 8}, want: filesystem.Content{Recognised: true, Description: "more than one signature (blkid exit code 8)"}},
		"found without a name":     {runner: exits{out: "DEVNAME=/dev/x\n"}, want: filesystem.Content{Recognised: true, Description: "a signature that blkid does not name"}},
		"partition table":          {runner: exits{out: "PTUUID=1\nPTTYPE=gpt\n"}, want: filesystem.Content{Recognised: true, Description: "PTUUID=1 PTTYPE=gpt"}},
		"raid member has no filesystem type": {
			runner: exits{out: "TYPE=linux_raid_member\nUSAGE=raid\nUUID=" + uuid + "\n"},
			want:   filesystem.Content{Recognised: true, Description: "TYPE=linux_raid_member USAGE=raid UUID=" + uuid},
		},
		"xfs": {
			runner: exits{out: "UUID=" + uuid + "\nTYPE=xfs\nUSAGE=filesystem\n"},
			want:   filesystem.Content{Recognised: true, Type: "xfs", UUID: uuid, Description: "UUID=" + uuid + " TYPE=xfs USAGE=filesystem"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := filesystem.New(filesystem.Options{Runner: test.runner, Mounter: fake, Devices: fake})
			got, err := h.Probe(t.Context(), disk)
			if (err != nil) != test.fails {
				t.Fatalf("err = %v", err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFormatCommandLines(t *testing.T) {
	for name, test := range map[string]struct {
		format filesystem.Format
		want   string
	}{
		"ext4, zeroed backend": {
			filesystem.Format{Device: disk, Type: filesystem.Ext4, UUID: uuid, Zeroed: true},
			"mkfs.ext4 -F -q -m 0 -U " + uuid + " -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 -- " + disk,
		},
		"ext4, backend with old data": {
			filesystem.Format{Device: disk, Type: filesystem.Ext4, UUID: uuid},
			"mkfs.ext4 -F -q -m 0 -U " + uuid + " -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 -- " + disk,
		},
		"xfs": {
			filesystem.Format{Device: disk, Type: filesystem.XFS, UUID: uuid, Zeroed: true},
			"mkfs.xfs -q -K -m uuid=" + uuid + " -- " + disk,
		},
		"ext4, with the administrator's options": {
			filesystem.Format{Device: disk, Type: filesystem.Ext4, UUID: uuid, Zeroed: true, Options: []string{"-m", "5", "-E", "stride=4"}},
			// mkfs.ext4 heeds the last -E only, so there is one.
			"mkfs.ext4 -F -q -m 0 -U " + uuid + " -m 5 -E nodiscard,lazy_itable_init=1,lazy_journal_init=1,stride=4 -- " + disk,
		},
		"xfs, with the administrator's options": {
			filesystem.Format{Device: disk, Type: filesystem.XFS, UUID: uuid, Options: []string{"-d", "agcount=4"}},
			"mkfs.xfs -q -K -m uuid=" + uuid + " -d agcount=4 -- " + disk,
		},
		"xfs, again": {
			filesystem.Format{Device: disk, Type: filesystem.XFS, UUID: uuid, Force: true},
			"mkfs.xfs -q -K -m uuid=" + uuid + " -f -- " + disk,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake, h := newHost(t)
			must(t, h.Format(t.Context(), test.format))
			if ran := fake.Ran(); len(ran) != 1 || strings.Join(ran[0], " ") != test.want {
				t.Errorf("ran %q\nwant %q", ran, test.want)
			}
			c, err := h.Probe(t.Context(), disk)
			if err != nil || !c.Is(test.format.Type, uuid) {
				t.Errorf("probe afterwards: %+v, %v", c, err)
			}
		})
	}
	_, h := newHost(t)
	for _, bad := range []filesystem.Format{{Device: disk, Type: "btrfs", UUID: uuid}, {Device: disk, Type: filesystem.Ext4, UUID: "-x"}} {
		if err := h.Format(t.Context(), bad); !errors.Is(err, filesystem.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", bad, err)
		}
	}
}

func mounted(t *testing.T) (*filesystemtest.Host, *filesystem.Host, string) {
	t.Helper()
	fake, h := newHost(t)
	fake.Change("m", func(m *filesystemtest.Medium) { m.Type = "ext4" })
	fake.Change("other", func(m *filesystemtest.Medium) { m.Type = "ext4" })
	staging := filepath.Join(t.TempDir(), "a staging path")
	options, err := filesystem.ParseMountOptions(filesystem.Ext4, []string{"noexec"})
	must(t, err)
	for range 3 {
		must(t, h.MountDevice(t.Context(), disk, is, staging, filesystem.Ext4, options))
	}
	return fake, h, staging
}

func TestMountDeviceMountsOnceAndOnlyThatDevice(t *testing.T) {
	fake, h, staging := mounted(t)
	if n := len(fake.Mounts()); n != 1 {
		t.Fatalf("%d mounts after 3 calls, want 1", n)
	}
	other := func(n blockdev.Number) bool { return n.Minor == 8 }
	err := h.MountDevice(t.Context(), "/dev/nvme8n1", other, staging, filesystem.Ext4, filesystem.MountOptions{})
	if !errors.Is(err, filesystem.ErrOccupied) || !strings.Contains(err.Error(), disk) {
		t.Fatalf("another device at the path: %v, want ErrOccupied naming %s", err, disk)
	}
}

func TestMountDeviceProvesWhatItMounted(t *testing.T) {
	fake, h := newHost(t)
	fake.Change("m", func(m *filesystemtest.Medium) { m.Type = "ext4" })
	never := func(blockdev.Number) bool { return false } // the node was another device after all
	err := h.MountDevice(t.Context(), disk, never, filepath.Join(t.TempDir(), "s"), filesystem.Ext4, filesystem.MountOptions{})
	if !errors.Is(err, filesystem.ErrOccupied) {
		t.Fatalf("err = %v, want ErrOccupied", err)
	}
}

// BM1, BM4: kubelet restarts repeat the call.
func TestBindIsOneMount(t *testing.T) {
	fake, h, staging := mounted(t)
	target := filepath.Join(t.TempDir(), "target")
	for range 5 {
		must(t, h.Bind(t.Context(), staging, target, false))
	}
	if n := len(fake.Mounts()); n != 2 {
		t.Fatalf("%d mounts, want staging and one bind", n)
	}
}

func TestBindRefusesAnotherSource(t *testing.T) {
	_, h, staging := mounted(t)
	second, target := filepath.Join(t.TempDir(), "s2"), filepath.Join(t.TempDir(), "target")
	other := func(n blockdev.Number) bool { return n.Minor == 8 }
	must(t, h.MountDevice(t.Context(), "/dev/nvme8n1", other, second, filesystem.Ext4, filesystem.MountOptions{}))
	must(t, h.Bind(t.Context(), second, target, false))
	if err := h.Bind(t.Context(), staging, target, false); !errors.Is(err, filesystem.ErrOccupied) {
		t.Fatalf("err = %v, want ErrOccupied", err)
	}
	if err := h.Bind(t.Context(), filepath.Join(staging, "none"), target, false); !errors.Is(err, filesystem.ErrNotMounted) {
		t.Fatalf("source not mounted: %v, want ErrNotMounted", err)
	}
}

func TestReadOnlyBindKeepsOtherFlagsAndFinishesAKilledCall(t *testing.T) {
	fake, h, staging := mounted(t)
	target := filepath.Join(t.TempDir(), "target")
	killed := errors.New("killed")
	fake.Fault = func(op string) error {
		if op == "mount "+target+" done" {
			return killed
		}
		return nil
	}
	if err := h.Bind(t.Context(), staging, target, true); !errors.Is(err, killed) {
		t.Fatalf("err = %v", err)
	}
	fake.Fault = nil
	for range 2 {
		must(t, h.Bind(t.Context(), staging, target, true))
	}
	last := fake.Mounts()[1]
	if len(fake.Mounts()) != 2 || !last.ReadOnly() || !slices.Contains(last.Options, "noexec") || fake.Mounts()[0].ReadOnly() {
		t.Fatalf("mounts %v, want a read-only noexec bind", fake.Mounts())
	}
	if err := h.Bind(t.Context(), staging, target, false); !errors.Is(err, filesystem.ErrOccupied) {
		t.Fatalf("read-write over read-only: %v, want ErrOccupied", err)
	}
}

// BM2
func TestBindDeviceIsOneMountOfThatDevice(t *testing.T) {
	fake, h := newHost(t)
	target := filepath.Join(t.TempDir(), "target")
	must(t, h.MakeFile(target))
	for range 4 {
		must(t, h.BindDevice(t.Context(), disk, is, target))
	}
	if n := len(fake.Mounts()); n != 1 {
		t.Fatalf("%d mounts, want 1", n)
	}
	other := func(n blockdev.Number) bool { return n.Minor == 8 }
	if err := h.BindDevice(t.Context(), "/dev/nvme8n1", other, target); !errors.Is(err, filesystem.ErrOccupied) {
		t.Errorf("another device: %v, want ErrOccupied", err)
	}
	// The same name, but another device by now.
	if err := h.BindDevice(t.Context(), disk, other, target); !errors.Is(err, filesystem.ErrOccupied) {
		t.Errorf("same name, other number: %v, want ErrOccupied", err)
	}
}

// ST22: the path is not looked at; an error of umount counts only while
// mountinfo still shows the mount.
func TestUnmount(t *testing.T) {
	fake, h, staging := mounted(t)
	must(t, h.Bind(t.Context(), staging, staging, false)) // already there: no second one
	fake.Fault = func(op string) error {
		if strings.HasPrefix(op, "unmount ") {
			return unix.EBUSY
		}
		return nil
	}
	if err := h.Unmount(t.Context(), staging); !errors.Is(err, unix.EBUSY) {
		t.Fatalf("busy: %v, want EBUSY", err)
	}
	for _, errno := range []unix.Errno{unix.EIO, unix.ESTALE, unix.ENOTCONN} {
		fake, h, staging := mounted(t)
		fake.Fault = func(op string) error {
			if op == "unmount "+staging+" done" {
				return errno
			}
			return nil
		}
		must(t, h.Unmount(t.Context(), staging))
		if n := len(fake.Mounts()); n != 0 {
			t.Errorf("%v: %d mounts left", errno, n)
		}
		must(t, h.Unmount(t.Context(), staging))
	}
}

func TestUnmountThatHangsIsAbandonedAndJoined(t *testing.T) {
	fake, h, staging := mounted(t)
	release, calls := make(chan struct{}), make(chan string, 8)
	fake.Fault = func(op string) error {
		if op == "unmount "+staging {
			calls <- op
			<-release
		}
		return nil
	}
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if err := h.Unmount(ctx, staging); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want the deadline", err)
		}
		cancel()
	}
	<-calls
	if n := len(calls); n != 0 {
		t.Fatalf("%d umounts more while the first one runs", n)
	}
	close(release)
	must(t, h.Unmount(t.Context(), staging))
	if n := len(fake.Mounts()); n != 0 {
		t.Errorf("%d mounts left", n)
	}
}

// SE4
func TestMountOptionsAreAnAllowList(t *testing.T) {
	for _, fine := range []string{"ro", "noatime", "nosuid", "discard", "errors=remount-ro"} {
		if _, err := filesystem.ParseMountOptions(filesystem.Ext4, []string{fine}); err != nil {
			t.Errorf("%q: %v", fine, err)
		}
	}
	for _, bad := range []string{"", "noatime,suid", "bind", "remount", "loop", "errors=panic", "logbsize=32k", "journal_path=/dev/sda", "ro\n", "context=x", "nouuid"} {
		if _, err := filesystem.ParseMountOptions(filesystem.Ext4, []string{"noatime", bad}); !errors.Is(err, filesystem.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestTargetsAreMadeAndRemovedWithoutTouchingContents(t *testing.T) {
	_, h := newHost(t)
	dir := filepath.Join(t.TempDir(), "d")
	for range 2 {
		must(t, h.MakeDir(dir))
	}
	must(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
	if err := h.Remove(dir); err == nil {
		t.Error("removed a directory with contents")
	}
	if err := h.MakeFile(dir); !errors.Is(err, filesystem.ErrOccupied) {
		t.Errorf("file where a directory is: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, "precious")))
	for range 2 {
		must(t, h.Remove(dir))
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink("/etc", link))
	if err := h.MakeDir(link); !errors.Is(err, filesystem.ErrOccupied) {
		t.Errorf("symbolic link as target: %v, want ErrOccupied", err)
	}
	if err := h.MakeDir(filepath.Join(dir, "no", "parent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing parent: %v", err)
	}
}

func TestPathsAreComparedAfterResolvingTheParent(t *testing.T) {
	fake, h := newHost(t)
	fake.Change("m", func(m *filesystemtest.Medium) { m.Type = "ext4" })
	real := t.TempDir()
	alias := filepath.Join(t.TempDir(), "kubelet")
	must(t, os.Symlink(real, alias))
	for range 2 {
		must(t, h.MountDevice(t.Context(), disk, is, filepath.Join(alias, "s"), filesystem.Ext4, filesystem.MountOptions{}))
	}
	if m := fake.Mounts(); len(m) != 1 || m[0].Path != filepath.Join(real, "s") {
		t.Fatalf("mounts %v, want one at the real path", m)
	}
}
