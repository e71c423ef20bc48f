package initiator_test

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
)

// ST11: the namespace comes late; controllers are asked to look again.
func TestFindWaitsForALateNamespaceAndRescans(t *testing.T) {
	v := exported()
	v.Disabled = true
	k, i := onKernel(t, v)
	must(t, i.Connect(t.Context(), target(portalA)))
	var once sync.Once
	k.Fault = func(op string) error {
		if strings.HasPrefix(op, "rescan ") && !strings.HasSuffix(op, " done") {
			once.Do(func() {
				if err := k.Export(exported()); err != nil {
					t.Error(err)
				}
			})
		}
		return nil
	}
	d, err := i.Find(t.Context(), volume1)
	must(t, err)
	if d.Size != 64<<20 {
		t.Fatalf("size %d", d.Size)
	}
}

func TestFindWaitsForASize(t *testing.T) {
	v := exported()
	v.Size = 0
	k, i := onKernel(t, v)
	must(t, i.Connect(t.Context(), target(portalA)))
	if _, err := i.Find(soon(t), volume1); !errors.Is(err, initiator.ErrNotFound) || !strings.Contains(err.Error(), "size 0") {
		t.Fatalf("err = %v, want size 0", err)
	}
	must(t, k.Export(exported()))
	if _, err := i.Find(t.Context(), volume1); err != nil {
		t.Fatal(err)
	}
}

func TestFindComparesNGUID(t *testing.T) {
	v := exported()
	v.NGUID = "33333333-0000-4000-8000-000000000003"
	_, i := onKernel(t, v)
	must(t, i.Connect(t.Context(), target(portalA)))
	id := volume1
	id.NGUID = v.NGUID
	if _, err := i.Find(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	id.NGUID = "44444444-0000-4000-8000-000000000004"
	if _, err := i.Find(soon(t), id); !errors.Is(err, initiator.ErrNotFound) {
		t.Fatalf("another NGUID: %v", err)
	}
}

func TestFindWithoutNativeMultipath(t *testing.T) {
	k, i := onKernel(t, exported())
	k.NoMultipath = true
	must(t, i.Connect(t.Context(), target(portalA, portalB)))
	d, err := i.Find(t.Context(), volume1)
	must(t, err)
	if len(d.Alternates) != 1 || !d.Is(d.Alternates[0]) || !d.Is(d.Number) || d.Is(initiator.Number{Major: 8}) {
		t.Fatalf("device %+v, want the other path as alternate (ST7)", d)
	}
}

// ST8 and the recorded trap: a held head keeps its name.
func TestHeldDeviceKeepsItsNameFromTheNextConnection(t *testing.T) {
	_, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA)))
	before, err := i.Find(t.Context(), volume1)
	must(t, err)
	hold, err := i.Hold(t.Context(), before)
	must(t, err)
	defer hold.Close()
	must(t, i.Disconnect(t.Context(), nqn1))
	must(t, i.Connect(t.Context(), target(portalA)))
	after, err := i.Find(t.Context(), volume1)
	must(t, err)
	if after.Name == before.Name || after.Number == before.Number {
		t.Fatalf("new device %s %s, want another than the held %s %s", after.Name, after.Number, before.Name, before.Number)
	}
}

// otherNode opens a device node that is another device than its name says.
type otherNode struct{ *initiatortest.Kernel }

func (o otherNode) OpenDevice(path string) (io.Closer, initiator.Number, error) {
	c, n, err := o.Kernel.OpenDevice(path)
	n.Minor++
	return c, n, err
}

// ST13: neither a stale node nor a device that changed meanwhile is used.
func TestHoldVerifiesAfterOpening(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA)))
	d, err := i.Find(t.Context(), volume1)
	must(t, err)
	stale := initiator.New(initiator.Options{Kernel: otherNode{k}, Sysfs: k.Sysfs(), Dev: k.Dev()})
	if _, err := stale.Hold(t.Context(), d); !errors.Is(err, initiator.ErrChanged) || !strings.Contains(err.Error(), filepath.Base(d.Path)) {
		t.Errorf("node with another number: %v, want ErrChanged", err)
	}
	rebuilt := exported()
	k.Fault = func(op string) error {
		if op == "open "+d.Name+" done" {
			rebuilt.UUID = uuid2
			return k.Export(rebuilt)
		}
		return nil
	}
	if _, err := i.Hold(t.Context(), d); !errors.Is(err, initiator.ErrChanged) {
		t.Errorf("identity changed while opening: %v, want ErrChanged", err)
	}
}
