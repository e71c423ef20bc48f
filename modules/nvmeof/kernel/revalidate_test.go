package kernel_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
)

// Fault EX1: a device that has grown is not seen by its hosts until the target
// looks at it again; then it is, and they stay connected.
func TestRevalidateShowsAGrownDeviceToConnectedHosts(t *testing.T) {
	k := newKernel()
	k.Resize(disk, 4<<20)
	ensure(t, k, export(hostOld))
	c, err := k.Connect(hostOld, volume, portA)
	if err != nil {
		t.Fatal(err)
	}
	k.Resize(disk, 8<<20)
	size := func(when string, want int64) {
		t.Helper()
		if got, err := c.Size(1); err != nil || got != want {
			t.Errorf("%s the host sees %d bytes (%v), want %d", when, got, err, want)
		}
	}
	size("before", 4<<20)
	if err := newTarget(k).Revalidate(t.Context(), volume, 1); err != nil {
		t.Fatal(err)
	}
	size("after", 8<<20)
	if !c.Live() {
		t.Error("the host was disconnected")
	}
}

func TestRevalidateOfADisabledNamespaceIsNotFound(t *testing.T) {
	k := newKernel()
	ensure(t, k, export())
	if err := k.WriteFile("subsystems/"+volume+"/namespaces/1/enable", []byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := newTarget(k).Revalidate(t.Context(), volume, 1); !errors.Is(err, nvmeof.ErrNotFound) {
		t.Errorf("error = %v, want ErrNotFound", err)
	}
}

// oldKernel is one whose namespaces have no revalidate_size (before 5.8).
type oldKernel struct{ kernel.FS }

func (oldKernel) WriteFile(string, []byte) error { return fs.ErrNotExist }

func TestRevalidateOnAnOldKernelIsUnsupported(t *testing.T) {
	k := newKernel()
	ensure(t, k, export())
	err := kernel.New(oldKernel{k}).Revalidate(t.Context(), volume, 1)
	if !errors.Is(err, nvmeof.ErrUnsupported) {
		t.Errorf("error = %v, want ErrUnsupported", err)
	}
}
