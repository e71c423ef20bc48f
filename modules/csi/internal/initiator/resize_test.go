package initiator_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

// EX1: the event got lost; the controller is asked to look again.
func TestResizeAsksTheControllersToLookAgain(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA, portalB)))
	k.Unnoticed = true
	grown := exported()
	grown.Size = 128 << 20
	must(t, k.Export(grown))
	var rescans atomic.Int32
	k.Fault = func(op string) error {
		if strings.HasPrefix(op, "rescan ") {
			rescans.Add(1)
		}
		return nil
	}
	d, err := i.Resize(t.Context(), volume1, 64<<20)
	if err != nil || d.Size != 64<<20 || rescans.Load() != 0 {
		t.Fatalf("large enough: %+v, %v, %d rescans, want none", d, err, rescans.Load())
	}
	for range 2 {
		if d, err = i.Resize(t.Context(), volume1, 128<<20); err != nil || d.Size != 128<<20 {
			t.Fatalf("got %+v, %v", d, err)
		}
	}
	if rescans.Load() == 0 {
		t.Error("no rescan")
	}
}

func TestResizeSaysBothSizes(t *testing.T) {
	k, _ := onKernel(t, exported())
	i := initiator.New(initiator.Options{Kernel: k, Sysfs: k.Sysfs(), Dev: k.Dev(), NamespaceTimeout: 50 * time.Millisecond})
	must(t, i.Connect(t.Context(), target(portalA)))
	_, err := i.Resize(t.Context(), volume1, 128<<20)
	if !errors.Is(err, initiator.ErrTooSmall) || !strings.Contains(err.Error(), "67108864") || !strings.Contains(err.Error(), "134217728") {
		t.Errorf("err = %v, want ErrTooSmall with both sizes", err)
	}
	must(t, k.SetState(nqn1, "connecting"))
	if _, err := i.Resize(t.Context(), volume1, 1); !errors.Is(err, initiator.ErrNotFound) {
		t.Errorf("no live path: %v", err)
	}
}
