package filesystem_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
)

// onDevice is a host on which a filesystem of so many bytes is mounted.
func onDevice(t *testing.T, fsType filesystem.Type, bytes int64) (*filesystemtest.Host, *filesystem.Host, filesystem.Mount) {
	t.Helper()
	fake, h := newHost(t)
	fake.Change("m", func(m *filesystemtest.Medium) { m.Type, m.Size = string(fsType), bytes })
	must(t, h.MountDevice(t.Context(), disk, is, filepath.Join(t.TempDir(), "s"), fsType, filesystem.MountOptions{}))
	return fake, h, fake.Mounts()[0]
}

func TestGrow(t *testing.T) {
	for name, test := range map[string]struct {
		fsType filesystem.Type
		size   int64
		want   func(m filesystem.Mount) string
	}{
		"ext4":                           {filesystem.Ext4, 32 << 20, func(filesystem.Mount) string { return "resize2fs -- " + disk }},
		"xfs":                            {filesystem.XFS, 32 << 20, func(m filesystem.Mount) string { return "xfs_growfs -d -- " + m.Path }},
		"nothing to do":                  {filesystem.Ext4, size, nil},
		"less than a block is left over": {filesystem.XFS, size - 512, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fake, h, m := onDevice(t, test.fsType, test.size)
			for range 2 {
				got, err := h.Grow(t.Context(), m, size)
				if err != nil || got < size-512 {
					t.Fatalf("%d bytes, %v, want %d", got, err, size)
				}
			}
			var want []string
			if test.want != nil {
				want = []string{test.want(m)}
			}
			var ran []string
			for _, line := range fake.Ran() {
				ran = append(ran, strings.Join(line, " "))
			}
			if !slices.Equal(ran, want) {
				t.Errorf("ran %q, want %q", ran, want)
			}
		})
	}
}

func TestGrowRefusals(t *testing.T) {
	_, h, m := onDevice(t, filesystem.Ext4, 32<<20)
	// The device is larger by more than any filesystem leaves unused.
	if _, err := h.Grow(t.Context(), m, 1<<30); !errors.Is(err, filesystem.ErrNotGrown) || !strings.Contains(err.Error(), "67108864") || !strings.Contains(err.Error(), "1073741824") {
		t.Errorf("not grown: %v, want ErrNotGrown with both sizes", err)
	}
	other := m
	other.Source = "/dev/nvme8n1" // another path's device of nvme_core.multipath=N
	if _, err := h.Grow(t.Context(), other, size); !errors.Is(err, filesystem.ErrNotMounted) {
		t.Errorf("another device: %v, want ErrNotMounted", err)
	}
	other = m
	other.FSType = "btrfs"
	if _, err := h.Grow(t.Context(), other, size); !errors.Is(err, filesystem.ErrInvalid) {
		t.Errorf("btrfs: %v, want ErrInvalid", err)
	}
	fake, h, m := onDevice(t, filesystem.Ext4, 32<<20)
	fake.Change("m", func(m *filesystemtest.Medium) { m.ReadError = unix.EIO })
	if _, err := h.Grow(t.Context(), m, size); !errors.Is(err, unix.EIO) {
		t.Errorf("unreadable: %v, want EIO", err)
	}
}

func TestCheckChangesNothingAndNeedsTheDeviceAlone(t *testing.T) {
	for fsType, want := range map[filesystem.Type]string{filesystem.Ext4: "e2fsck -n -f -- " + disk, filesystem.XFS: "xfs_repair -n -- " + disk} {
		fake, h := newHost(t)
		must(t, h.Check(t.Context(), disk, fsType))
		if ran := fake.Ran(); len(ran) != 1 || strings.Join(ran[0], " ") != want {
			t.Errorf("ran %q, want %q", ran, want)
		}
		fake.Change("m", func(m *filesystemtest.Medium) { m.Damage = "Inode 12 has illegal block(s).\nFree blocks count wrong" })
		err := h.Check(t.Context(), disk, fsType)
		if !errors.Is(err, filesystem.ErrDamaged) || !strings.Contains(err.Error(), "illegal block(s).; Free blocks") {
			t.Errorf("%s: %v, want ErrDamaged and what the program said", fsType, err)
		}
	}
	fake, h, _ := onDevice(t, filesystem.Ext4, size)
	if err := h.Check(t.Context(), disk, filesystem.Ext4); !errors.Is(err, filesystem.ErrInUse) || len(fake.Ran()) != 0 {
		t.Errorf("mounted: %v, want ErrInUse and nothing run", err)
	}
	fake, h = newHost(t)
	fake.Fault = func(string) error { return unix.EIO }
	if err := h.Check(t.Context(), disk, filesystem.Ext4); !errors.Is(err, unix.EIO) || errors.Is(err, filesystem.ErrDamaged) {
		t.Errorf("a check that fails is %v, which proves no damage", err)
	}
}

// A check may take longer than any call waits.
func TestCheckOutlivesItsCallerAndIsJoined(t *testing.T) {
	fake, h := newHost(t)
	release := make(chan struct{})
	fake.Fault = func(string) error { <-release; return nil }
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if err := h.Check(ctx, disk, filesystem.Ext4); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want the deadline", err)
		}
		cancel()
	}
	close(release)
	must(t, h.Check(t.Context(), disk, filesystem.Ext4))
	if n := len(fake.Ran()); n > 2 {
		t.Errorf("%d checks for 4 callers", n)
	}
}

func TestUsage(t *testing.T) {
	fake, h, m := onDevice(t, filesystem.Ext4, size)
	u, err := h.Usage(t.Context(), m.Path)
	want := filesystem.Usage{
		Bytes:  filesystem.Amount{Total: size, Used: size / 4, Available: size - size/4},
		Inodes: filesystem.Amount{Total: 1000, Used: 10, Available: 990},
	}
	if err != nil || u != want {
		t.Fatalf("got %+v, %v, want %+v", u, err, want)
	}
	// BM7: a filesystem that does not answer costs a deadline, and one thread.
	release, asked := make(chan struct{}), make(chan string, 8)
	fake.Fault = func(op string) error { asked <- op; <-release; return nil }
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		if _, err := h.Usage(ctx, m.Path); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want the deadline", err)
		}
		cancel()
	}
	close(release)
	if len(asked) != 1 {
		t.Errorf("%d calls into the kernel, want 1", len(asked))
	}
}

// mounting keeps what the kernel is given.
type mounting struct {
	*filesystemtest.Host
	data string
}

func (m *mounting) Mount(source, target, fsType string, flags uintptr, data string) error {
	m.data = data
	return m.Host.Mount(source, target, fsType, flags, data)
}

// SN1: a clone of an XFS volume has its source's UUID.
func TestXFSIsMountedBesideItsClone(t *testing.T) {
	for fsType, want := range map[filesystem.Type]string{filesystem.Ext4: "discard", filesystem.XFS: "nouuid,discard"} {
		fake, _ := newHost(t)
		fake.Change("m", func(m *filesystemtest.Medium) { m.Type = string(fsType) })
		kernel := &mounting{Host: fake}
		h := filesystem.New(filesystem.Options{Runner: fake, Mounter: kernel, Devices: fake})
		options, err := filesystem.ParseMountOptions(fsType, []string{"discard"})
		must(t, err)
		must(t, h.MountDevice(t.Context(), disk, is, filepath.Join(t.TempDir(), "s"), fsType, options))
		if kernel.data != want {
			t.Errorf("%s is mounted with %q, want %q", fsType, kernel.data, want)
		}
	}
}

// RR7
func TestAReadOnlyRemountIsToldFromAReadOnlyMount(t *testing.T) {
	for name, test := range map[string]struct {
		options, super []string
		want           bool
	}{
		"read-write":        {[]string{"rw", "relatime"}, []string{"rw"}, false},
		"asked for":         {[]string{"ro", "relatime"}, []string{"ro"}, false},
		"read-only bind":    {[]string{"ro"}, []string{"rw"}, false},
		"errors=remount-ro": {[]string{"rw", "relatime"}, []string{"ro"}, true},
		"since Linux 6.15":  {[]string{"rw"}, []string{"rw", "emergency_ro"}, true},
	} {
		m := filesystem.Mount{Number: blockdev.Number{Major: 259}, Options: test.options, SuperOptions: test.super}
		if m.FailedReadOnly() != test.want {
			t.Errorf("%s: %t", name, !test.want)
		}
	}
}
