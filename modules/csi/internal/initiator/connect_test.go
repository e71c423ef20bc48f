package initiator_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
	"golang.org/x/sys/unix"
)

const (
	hostNQN = "nqn.2026-01.io.distort:host-0123456789abcdef0123456789abcdef"
	hostID  = "01234567-89ab-cdef-0123-456789abcdef"
)

var (
	portalA = initiator.Portal{Transport: initiator.TCP, Address: netip.MustParseAddr("10.77.0.10"), Port: 4420}
	portalB = initiator.Portal{Transport: initiator.RDMA, Address: netip.MustParseAddr("fd77::10"), Port: 4421}
)

func target(portals ...initiator.Portal) initiator.Target {
	return initiator.Target{NQN: nqn1, HostNQN: hostNQN, HostID: hostID, Portals: portals}
}

func exported() initiatortest.Volume {
	return initiatortest.Volume{
		NQN: nqn1, NSID: 1, UUID: uuid1, Size: 64 << 20,
		Portals: []initiator.Portal{portalA, portalB}, AllowedHosts: []string{hostNQN},
	}
}

func onKernel(t *testing.T, volumes ...initiatortest.Volume) (*initiatortest.Kernel, *initiator.Initiator) {
	t.Helper()
	k, err := initiatortest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes {
		must(t, k.Export(v))
	}
	return k, withGrace(k, time.Minute)
}

// withGrace is an initiator that waits so long for further portals.
func withGrace(k *initiatortest.Kernel, grace time.Duration) *initiator.Initiator {
	return initiator.New(initiator.Options{
		Kernel: k, Sysfs: k.Sysfs(), Dev: k.Dev(), CPUs: 128, NamespaceTimeout: 2 * time.Second, PathGrace: grace,
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// ST1, ST4: host NQN and host ID are both in the options; the defaults are
// those of design.md §7 and §9.
func TestConnectWritesTheWholeOptionText(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA)))
	want := "nqn=" + nqn1 + ",transport=tcp,traddr=10.77.0.10,trsvcid=4420,hostnqn=" + hostNQN + ",hostid=" + hostID +
		",ctrl_loss_tmo=-1,reconnect_delay=10,nr_io_queues=8"
	if got := k.Written(); len(got) != 1 || got[0] != want {
		t.Fatalf("written %q\nwant    %q", got, want)
	}
	k, i = onKernel(t, exported())
	full := target(portalB)
	full.Params = initiator.Params{
		CtrlLossTimeout: number(60), ReconnectDelay: number(2), KeepAliveTimeout: number(5),
		FastIOFailTimeout: number(3), IOQueues: number(2), QueueSize: number(64),
	}
	must(t, i.Connect(t.Context(), full))
	want = "nqn=" + nqn1 + ",transport=rdma,traddr=fd77::10,trsvcid=4421,hostnqn=" + hostNQN + ",hostid=" + hostID +
		",ctrl_loss_tmo=60,reconnect_delay=2,nr_io_queues=2,keep_alive_tmo=5,fast_io_fail_tmo=3,queue_size=64"
	if got := k.Written(); len(got) != 1 || got[0] != want {
		t.Fatalf("written %q\nwant    %q", got, want)
	}
}

// ST2: the second connect finds the first one's controller.
func TestConnectTwiceMakesOneController(t *testing.T) {
	k, i := onKernel(t, exported())
	var together sync.WaitGroup
	for range 8 {
		together.Go(func() {
			if err := i.Connect(t.Context(), target(portalA)); err != nil {
				t.Error(err)
			}
		})
	}
	together.Wait()
	must(t, i.Connect(t.Context(), target(portalA)))
	if n := k.Controllers(nqn1); n != 1 {
		t.Fatalf("%d controllers, want 1", n)
	}
}

// ST2: somebody else's write (of a killed process of ours) wins the race.
func TestConnectLooksUpWhatIsAlreadyThere(t *testing.T) {
	k, i := onKernel(t, exported())
	raced := false
	k.Fault = func(op string) error {
		if op == "connect "+nqn1 && !raced {
			raced = true
			_, err := k.Connect("nqn=" + nqn1 + ",transport=tcp,traddr=10.77.0.10,trsvcid=4420,hostnqn=" + hostNQN + ",hostid=" + hostID)
			return err
		}
		return nil
	}
	must(t, i.Connect(t.Context(), target(portalA)))
	if n := k.Controllers(nqn1); n != 1 {
		t.Fatalf("%d controllers, want 1", n)
	}
}

// "Already connected" with nothing to see must neither spin nor pass.
func TestConnectDoesNotSpinOnAnInvisibleController(t *testing.T) {
	k, i := onKernel(t, exported())
	writes := make(chan string, 100)
	k.Fault = func(op string) error { writes <- op; return unix.EALREADY }
	if err := i.Connect(soon(t), target(portalA)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("err = %v, want the deadline", err)
	}
	if len(writes) != 1 {
		t.Errorf("%d writes in 100 ms, want 1", len(writes))
	}
}

// ST5: reconnecting is not connected, and is no reason for a second write.
func TestConnectWaitsForAReconnectingController(t *testing.T) {
	for _, state := range []string{"connecting", "resetting", "new"} {
		t.Run(state, func(t *testing.T) {
			k, i := onKernel(t, exported())
			must(t, i.Connect(t.Context(), target(portalA)))
			must(t, k.SetState(nqn1, state))
			if err := i.Connect(soon(t), target(portalA)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), state) {
				t.Fatalf("while %s: %v, want the deadline and the state", state, err)
			}
			done := make(chan error)
			go func() { done <- i.Connect(t.Context(), target(portalA)) }()
			must(t, k.SetState(nqn1, "live"))
			must(t, <-done)
			if got := k.Written(); len(got) != 1 {
				t.Fatalf("%d writes, want 1", len(got))
			}
		})
	}
}

func TestConnectDoesNotReuseAControllerThatIsBeingDeleted(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA)))
	must(t, k.SetState(nqn1, "deleting (no IO)"))
	must(t, i.Connect(t.Context(), target(portalA)))
	if n := k.Controllers(nqn1); n != 2 {
		t.Fatalf("%d controllers, want the old and a new one", n)
	}
}

func TestConnectRefusesAForeignController(t *testing.T) {
	v := exported()
	const other = "nqn.2014-08.org.nvmexpress:uuid:07b7028d-b822-404b-9cde-ee475895701b"
	v.AllowedHosts = append(v.AllowedHosts, other)
	k, i := onKernel(t, v)
	_, err := k.Connect("nqn=" + nqn1 + ",transport=tcp,traddr=10.77.0.10,trsvcid=4420,hostnqn=" + other + ",hostid=07b7028d-b822-404b-9cde-ee475895701b")
	must(t, err)
	if err := i.Connect(t.Context(), target(portalA)); !errors.Is(err, initiator.ErrForeign) || !strings.Contains(err.Error(), other) {
		t.Fatalf("err = %v, want ErrForeign naming %s", err, other)
	}
}

// One dead portal does not keep the volume away, nor does a hung one.
func TestConnectNeedsOnePortal(t *testing.T) {
	nobody := initiator.Portal{Transport: initiator.TCP, Address: netip.MustParseAddr("10.77.0.99"), Port: 4420}
	_, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(nobody, portalA)))

	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	k, _ := onKernel(t, exported())
	first := true
	var mu sync.Mutex
	k.Fault = func(op string) error {
		mu.Lock()
		hang := first && op == "connect "+nqn1
		first = false
		mu.Unlock()
		if hang {
			<-release
		}
		return nil
	}
	must(t, withGrace(k, 10*time.Millisecond).Connect(t.Context(), target(portalA, portalB)))
	if n := k.Controllers(nqn1); n != 1 {
		t.Fatalf("%d controllers, want 1", n)
	}
}

// BM5 in NVMe's clothes: a write that the kernel does not answer costs its
// caller the deadline and nobody else anything, and is not repeated.
func TestHungConnectIsAbandonedNotRepeated(t *testing.T) {
	v2 := exported()
	v2.NQN, v2.UUID = nqn2, uuid2
	k, i := onKernel(t, exported(), v2)
	release, writes := make(chan struct{}), make(chan string, 10)
	k.Fault = func(op string) error {
		if op == "connect "+nqn1 {
			writes <- op
			<-release
		}
		return nil
	}
	for range 3 {
		if err := i.Connect(soon(t), target(portalA)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want the deadline", err)
		}
	}
	other := target(portalA)
	other.NQN = nqn2
	must(t, i.Connect(t.Context(), other))
	if len(writes) != 1 {
		t.Fatalf("%d writes for one portal, want 1", len(writes))
	}
	// The late controller is not forgotten: disconnect waits for the write.
	if err := i.Disconnect(soon(t), nqn1); !errors.Is(err, initiator.ErrBusy) {
		t.Fatalf("disconnect during a connect: %v, want ErrBusy", err)
	}
	close(release)
	must(t, i.Disconnect(t.Context(), nqn1))
	if n := k.Controllers(nqn1); n != 0 {
		t.Fatalf("%d controllers after disconnect", n)
	}
}

func TestConnectExplainsErrnos(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.EIO: initiator.ErrRefused, unix.ENOKEY: initiator.ErrRefused, unix.EKEYREJECTED: initiator.ErrRefused,
		unix.EINVAL: initiator.ErrUnsupported, unix.ENODEV: initiator.ErrUnsupported, unix.ENOENT: initiator.ErrUnsupported,
		unix.ECONNREFUSED: initiator.ErrUnreachable, unix.ETIMEDOUT: initiator.ErrUnreachable, unix.EHOSTUNREACH: initiator.ErrUnreachable,
	} {
		k, i := onKernel(t, exported())
		k.Fault = func(string) error { return errno }
		err := i.Connect(t.Context(), target(portalA))
		if !errors.Is(err, want) || !errors.Is(err, errno) || !strings.Contains(err.Error(), portalA.String()) || !strings.Contains(err.Error(), nqn1) {
			t.Errorf("%v: %v, want %v naming subsystem and portal", errno, err, want)
		}
	}
}

func TestConnectToWhatIsNotAllowedOrNotThere(t *testing.T) {
	v := exported()
	v.AllowedHosts = nil
	_, i := onKernel(t, v)
	if err := i.Connect(t.Context(), target(portalA)); !errors.Is(err, initiator.ErrRefused) {
		t.Errorf("host not allowed: %v", err)
	}
	_, i = onKernel(t)
	if err := i.Connect(t.Context(), target(portalA)); !errors.Is(err, initiator.ErrUnreachable) {
		t.Errorf("nothing listens: %v", err)
	}
}

// ST10: no other volume loses its connection, and this one keeps none.
func TestDisconnectEndsEveryControllerOfTheSubsystemOnly(t *testing.T) {
	v2 := exported()
	v2.NQN, v2.UUID = nqn2, uuid2
	k, i := onKernel(t, exported(), v2)
	must(t, i.Connect(t.Context(), target(portalA, portalB)))
	other := target(portalA)
	other.NQN = nqn2
	must(t, i.Connect(t.Context(), other))
	for range 2 { // idempotent
		must(t, i.Disconnect(t.Context(), nqn1))
	}
	if a, b := k.Controllers(nqn1), k.Controllers(nqn2); a != 0 || b != 1 {
		t.Fatalf("controllers %d and %d, want 0 and 1", a, b)
	}
}

// A delete may take a minute (recorded: 62 s); the answer is what sysfs shows.
func TestDisconnectIsBoundedAndDoesNotRepeatAHungDelete(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA)))
	release, deletes := make(chan struct{}), make(chan string, 10)
	k.Fault = func(op string) error {
		if strings.HasPrefix(op, "delete ") && !strings.HasSuffix(op, " done") {
			deletes <- op
			<-release
		}
		return nil
	}
	for range 2 {
		err := i.Disconnect(soon(t), nqn1)
		if !errors.Is(err, initiator.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), portalA.String()) {
			t.Fatalf("err = %v, want ErrBusy and the controller", err)
		}
	}
	close(release)
	must(t, i.Disconnect(t.Context(), nqn1))
	if len(deletes) != 1 {
		t.Fatalf("%d deletes, want 1", len(deletes))
	}
}

func TestDisconnectReportsARefusedDelete(t *testing.T) {
	k, i := onKernel(t, exported())
	must(t, i.Connect(t.Context(), target(portalA)))
	k.Fault = func(op string) error { return unix.EROFS }
	// At once, not at the deadline.
	if err := i.Disconnect(t.Context(), nqn1); !errors.Is(err, unix.EROFS) || !errors.Is(err, initiator.ErrBusy) {
		t.Fatalf("err = %v, want ErrBusy and EROFS", err)
	}
}
