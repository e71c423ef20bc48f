package gpt_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/carve/blockdev"
	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/carve/gpt"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
)

// hostVariable chooses the device that the suite runs on, as root, with the
// host's kernel and programs: "loop" for a loop device on a temporary file, or
// the serial number of an NVMe drive, whose content is destroyed.
const hostVariable = "DISTORT_TEST_CARVE"

func TestHostDevice(t *testing.T) {
	choice := os.Getenv(hostVariable)
	if choice == "" {
		t.Skip("set " + hostVariable + " to loop, or to the serial number of a drive to destroy; needs root and a kernel of its own")
	}
	h := newHost(t)
	var d inventory.Drive
	if choice == "loop" {
		d = h.loop(t)
	} else {
		var err error
		if d, err = h.reader.Scan(t.Context()).Find(choice); err != nil {
			t.Fatal(err)
		}
	}
	carvetest.RunSuite(t, func(t *testing.T) carvetest.Env {
		h.blank(t, d)
		return h.env(t, d)
	})
}

type host struct {
	run    *command.Exec
	reader *inventory.Reader
	blocks blockdev.Host
}

func newHost(t *testing.T) *host {
	reader, err := inventory.New(inventory.Config{Roots: inventory.HostRoots()})
	if err != nil {
		t.Fatal(err)
	}
	return &host{run: command.NewExec(), reader: reader}
}

func (h *host) do(t *testing.T, name string, args ...string) string {
	t.Helper()
	res, err := h.run.Run(t.Context(), command.New(name, args...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(res.Stdout))
}

func (h *host) loop(t *testing.T) inventory.Drive {
	t.Helper()
	const size = 512 << 20
	file := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	path := h.do(t, "losetup", "--find", "--show", "--", file)
	t.Cleanup(func() { detach(t, path) })
	return inventory.Drive{Serial: "LOOP0001", Name: filepath.Base(path), Path: path, State: inventory.StateLive,
		SizeBytes: size, BlockBytes: 512}
}

// detach frees a loop device without a program.
func detach(t *testing.T, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), unix.LOOP_CLR_FD, 0); err != nil {
		t.Error(err)
	}
}

// blank makes the kernel forget the partitions and the whole device read zero.
func (h *host) blank(t *testing.T, d inventory.Drive) {
	t.Helper()
	parts, err := h.reader.Partitions(d.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		h.forget(t, d, p)
	}
	if err := h.blocks.Zero(t.Context(), d.Path, 0, d.SizeBytes); err != nil {
		t.Fatal(err)
	}
}

// forget makes the kernel forget a partition. It refuses for as long as somebody has
// it open, as udev has for a moment after the test before closed it.
func (h *host) forget(t *testing.T, d inventory.Drive, p inventory.Partition) {
	t.Helper()
	again, end := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for {
		_, err := h.run.Run(t.Context(), command.New("partx", "-d", "--nr", strconv.Itoa(p.Number), "--", d.Path))
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-end:
			t.Fatal(err)
		}
	}
}

func (h *host) env(t *testing.T, d inventory.Drive) carvetest.Env {
	m, err := gpt.New(gpt.Config{Runner: h.run, Prober: media.NewProber(h.run, h.reader, h.blocks), Kernel: h.reader, Blocks: h.blocks})
	if err != nil {
		t.Fatal(err)
	}
	open := func(flags int) func(*testing.T, carve.Volume) func() {
		return func(t *testing.T, v carve.Volume) func() {
			fd, err := unix.Open(v.DevicePath, flags|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatalf("open %s: %v", v.DevicePath, err)
			}
			return func() { _ = unix.Close(fd) }
		}
	}
	return carvetest.Env{
		Manager: m,
		Drive:   d,
		Open:    open(unix.O_RDWR),
		Hold:    open(unix.O_RDONLY | unix.O_EXCL),
		Write: func(t *testing.T, start, size int64) {
			for _, at := range []int64{start, start + size/2/4096*4096, start + size - 4096} {
				writeAt(t, d.Path, at, strings.Repeat("DISTORT!", 512))
			}
		},
		Dirty: func(t *testing.T, start, size int64) bool {
			zero, err := h.blocks.IsZero(t.Context(), d.Path, start, size)
			if err != nil {
				t.Fatal(err)
			}
			return !zero
		},
		Foreign:     func(t *testing.T) { h.do(t, "mkswap", "--", d.Path) },
		DamageTable: func(t *testing.T) { writeAt(t, d.Path, d.BlockBytes, strings.Repeat("\x00", int(d.BlockBytes))) },
		Kernel: func(t *testing.T) []inventory.Partition {
			parts, err := h.reader.Partitions(d.Name)
			if err != nil {
				t.Fatal(err)
			}
			return parts
		},
	}
}

func writeAt(t *testing.T, path string, offset int64, data string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(data), offset); err != nil {
		t.Fatal(err)
	}
}
