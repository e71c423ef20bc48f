package kernel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

func TestEnsureAllListensWhenAllAreThere(t *testing.T) {
	devices := []string{"/dev/a", "/dev/b", "/dev/c"}
	k := nvmeoftest.NewKernel(nvmeoftest.WithDevices(devices...))
	var want []nvmeof.Subsystem
	for i, device := range devices {
		s := export(hostOld)
		s.NQN = fmt.Sprintf("%s-%d", volume, i)
		s.Serial = nvmeof.DeriveSerial(s.NQN)
		id := nvmeof.DeriveUUID(s.NQN)
		s.Namespaces = []nvmeof.Namespace{{NSID: 1, DevicePath: device, UUID: id, NGUID: id.NGUID()}}
		want = append(want, s)
	}
	// One that can never be made does not keep the others.
	bad := want[1]
	bad.Serial = strings.Repeat("x", 21)
	target := kernel.New(k)
	errs := target.EnsureAll(t.Context(), time.Minute, []nvmeof.Subsystem{want[0], bad, want[2]})
	if errs[0] != nil || !errors.Is(errs[1], nvmeof.ErrInvalid) || errs[2] != nil {
		t.Fatalf("errors = %v, want one for the second", errs)
	}
	trace := k.Trace()
	listens := func(line string) bool { return strings.HasPrefix(line, "symlink ports/") }
	links := 0
	for i, line := range trace {
		if !listens(line) {
			if links > 0 {
				t.Errorf("effect %d, between the listeners: %s", i, line)
			}
			continue
		}
		links++
	}
	if links != 2 {
		t.Errorf("%d links to ports in %v, want 2", links, trace)
	}

	host, err := k.Connect(hostOld, want[0].NQN, want[0].Listeners[0])
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range target.EnsureAll(t.Context(), time.Minute, want) {
		if err != nil {
			t.Errorf("%s: %v", want[i].NQN, err)
		}
	}
	if !host.Live() {
		t.Error("a host of a subsystem that was right was disturbed")
	}
	for _, line := range k.Trace() {
		if strings.Contains(line, want[0].NQN) {
			t.Errorf("a subsystem that was right was changed: %s", line)
		}
	}
}

// hanging is a kernel that never comes back from enabling one namespace.
type hanging struct {
	kernel.FS
	enable string
	ended  chan struct{}
}

func (h hanging) WriteFile(path string, data []byte) error {
	if path == h.enable {
		<-h.ended
	}
	return h.FS.WriteFile(path, data)
}

func TestADeviceThatHangsKeepsNoOtherFromItsHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		one, two := export(hostOld), export(hostOld)
		two.NQN, two.Serial = volume+"-2", nvmeof.DeriveSerial(volume+"-2")
		id := nvmeof.DeriveUUID(two.NQN)
		two.Namespaces = []nvmeof.Namespace{{NSID: 1, DevicePath: disk2, UUID: id, NGUID: id.NGUID()}}
		ended := make(chan struct{})
		defer close(ended)
		target := kernel.New(hanging{k, sub + "/namespaces/1/enable", ended})
		errs := target.EnsureAll(t.Context(), time.Minute, []nvmeof.Subsystem{one, two})
		if !errors.Is(errs[0], nvmeof.ErrBusy) || errs[1] != nil {
			t.Fatalf("errors = %v, want one for the first", errs)
		}
		if _, err := k.Connect(hostOld, two.NQN, portA); err != nil {
			t.Errorf("the other subsystem: %v", err)
		}
	})
}

func TestAHostThatIsTurnedAwayGivesUp(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	l := export(hostOld).Listeners[0]
	host, err := k.Connect(hostOld, volume, l)
	if err != nil {
		t.Fatal(err)
	}
	target := kernel.New(k)
	if _, err := target.Remove(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	if err := host.Reconnect(); !errors.Is(err, nvmeoftest.ErrConnectRefused) {
		t.Fatalf("nothing listens: %v, want %v", err, nvmeoftest.ErrConnectRefused)
	}
	ensure(t, k, export(hostOld))
	if err := host.Reconnect(); err != nil {
		t.Fatalf("the subsystem is back: %v", err)
	}
	if err := k.Remove("ports/1/subsystems/" + volume); err != nil {
		t.Fatal(err)
	}
	other := export(hostOld)
	other.NQN, other.Serial = volume+"-other", nvmeof.DeriveSerial(volume+"-other")
	other.Namespaces = nil
	if errs := target.EnsureAll(t.Context(), time.Minute, []nvmeof.Subsystem{other}); errs[0] != nil {
		t.Fatal(errs)
	}
	if err := host.Reconnect(); !errors.Is(err, nvmeoftest.ErrNotAllowed) {
		t.Fatalf("another subsystem listens there: %v, want %v", err, nvmeoftest.ErrNotAllowed)
	}
	ensure(t, k, export(hostOld))
	if err := host.Reconnect(); !errors.Is(err, nvmeoftest.ErrGaveUp) {
		t.Errorf("after it was turned away: %v, want %v", err, nvmeoftest.ErrGaveUp)
	}
}
