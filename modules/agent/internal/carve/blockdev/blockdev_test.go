package blockdev_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/carve/blockdev"
)

const mib = 1 << 20

// file is a regular file full of data: BLKZEROOUT does not work on it, so that
// the writes are what is tested. The ioctl is tested by the carve suite on a
// device.
func file(t *testing.T, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "medium")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0xa5}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestZeroTouchesItsRegionOnly(t *testing.T) {
	path := file(t, 4*mib)
	if err := (blockdev.Host{}).Zero(t.Context(), path, mib, 2*mib+4096); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{0xa5}, 4*mib)
	clear(want[mib : 3*mib+4096])
	if !bytes.Equal(got, want) {
		t.Error("bytes outside the region changed, or bytes inside did not")
	}
}

func TestIsZeroSeesASingleByte(t *testing.T) {
	path := file(t, 4*mib)
	b := make([]byte, 4*mib)
	b[mib-1], b[3*mib] = 1, 1 // around the region
	write := func() {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write()
	check := func(want bool) {
		t.Helper()
		got, err := (blockdev.Host{}).IsZero(t.Context(), path, mib, 2*mib)
		if err != nil || got != want {
			t.Errorf("IsZero = %v, %v; want %v", got, err, want)
		}
	}
	check(true)
	for _, at := range []int{mib, 2*mib - 1, 3*mib - 1} {
		b[at] = 1
		write()
		check(false)
		b[at] = 0
	}
}

func TestReadBehindTheEndIsAnErrorNotZero(t *testing.T) {
	path := file(t, mib)
	if zero, err := (blockdev.Host{}).IsZero(t.Context(), path, mib, 4096); err == nil || zero {
		t.Errorf("IsZero = %v, %v; want an error", zero, err)
	}
}

func TestContextEndStopsBetweenChunks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := file(t, mib)
	if err := (blockdev.Host{}).Zero(ctx, path, 0, mib); !errors.Is(err, context.Canceled) {
		t.Errorf("Zero = %v", err)
	}
	if _, err := (blockdev.Host{}).IsZero(ctx, path, 0, mib); !errors.Is(err, context.Canceled) {
		t.Errorf("IsZero = %v", err)
	}
}

func TestNumberIsForBlockDevicesOnly(t *testing.T) {
	for _, path := range []string{file(t, 1), "/dev/null", "/nonexistent"} {
		if n, err := (blockdev.Host{}).Number(path); err == nil {
			t.Errorf("Number(%s) = %s", path, n)
		}
	}
}
