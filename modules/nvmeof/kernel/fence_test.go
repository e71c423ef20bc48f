package kernel_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

const sub = "subsystems/" + volume

// takenDown and made are the effects of removing and making export(host).
func takenDown(host string) []string {
	return []string{
		"write " + sub + "/namespaces/1/enable 0",
		"unlink ports/1/subsystems/" + volume,
		"unlink " + sub + "/allowed_hosts/" + host,
		"rmdir " + sub + "/namespaces/1",
		"rmdir " + sub,
	}
}

func TestRevokeKeepsTheOrderOfTheFence(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	k.Trace()
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	id := nvmeof.DeriveUUID(volume).String()
	want := append(takenDown(hostOld),
		"mkdir "+sub,
		"write "+sub+"/attr_serial DISTORT1",
		"write "+sub+"/attr_model DISTORT",
		"mkdir "+sub+"/namespaces/1",
		"write "+sub+"/namespaces/1/device_path "+disk,
		"write "+sub+"/namespaces/1/device_uuid "+id,
		"write "+sub+"/namespaces/1/device_nguid "+id,
		"write "+sub+"/namespaces/1/enable 1",
		"symlink ports/1/subsystems/"+volume+" "+sub,
		"rmdir hosts/"+hostOld,
	)
	if d := cmp.Diff(want, k.Trace()); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestEnsureFencesBeforeItAdmits(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	k.Trace()
	report := ensure(t, k, export(hostNew))
	got := k.Trace()
	if d := cmp.Diff(takenDown(hostOld), got[:5]); d != "" {
		t.Errorf("first effects (-want +got):\n%s", d)
	}
	tail := []string{
		"symlink " + sub + "/allowed_hosts/" + hostNew + " hosts/" + hostNew,
		"symlink ports/1/subsystems/" + volume + " " + sub,
	}
	if d := cmp.Diff(tail, got[len(got)-2:]); d != "" {
		t.Errorf("last effects (-want +got):\n%s", d)
	}
	if report.Created || report.Fenced == nil || !report.Fenced.Complete() || report.Fenced.Hosts[0] != hostOld {
		t.Errorf("created %t, evidence %+v", report.Created, report.Fenced)
	}
}

// What is in the socket of a controller that was told to end is carried out
// later, if it finds an enabled namespace. It must find none, however long the
// kernel takes, whoever is admitted in between. So a detach by the clock, from a node
// that is well and still has the volume mounted, is safe (fault PU1).
func TestWritesOnTheirWayNeverLandAfterTheFence(t *testing.T) {
	for name, fence := range map[string]func(*testing.T, *kernel.Target) error{
		"revoke":         revokes(hostOld),
		"exchange hosts": ensures(export(hostNew)),
		"remove and make again": func(t *testing.T, target *kernel.Target) error {
			if err := removes(t, target); err != nil {
				return err
			}
			return ensures(export(hostNew))(t, target)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel()
			k.HoldTeardown()
			ensure(t, k, export(hostOld))
			c := connect(t, k, hostOld)
			if err := c.Send(1, "on its way"); err != nil {
				t.Fatal(err)
			}
			if err := fence(t, newTarget(k)); err != nil {
				t.Fatal(err)
			}
			ensure(t, k, export(hostNew))
			if d := cmp.Diff([]string{hostOld}, k.Hosts(volume)); d != "" {
				t.Fatalf("the old controller is to linger (-want +got):\n%s", d)
			}
			k.Receive(hostOld)
			k.Complete()
			if got := k.Writes(disk); len(got) != 0 {
				t.Errorf("landed after the fence: %v", got)
			}
			if got := k.Writers(disk); len(got) != 0 {
				t.Errorf("who can write: %v", got)
			}
		})
	}
}

// A kernel with debugfs lets no subsystem be made again before the controllers of
// the old one are gone, and shows them.
func TestFenceWaitsForControllersWhereTheKernelTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := nvmeoftest.NewKernel(nvmeoftest.WithDevices(disk), nvmeoftest.WithDebugfs())
		k.HoldTeardown()
		target := newTarget(k)
		if _, err := target.Ensure(t.Context(), export(hostOld)); err != nil {
			t.Fatal(err)
		}
		connect(t, k, hostOld)
		_, err := target.Revoke(deadline(t, time.Second), volume, hostOld)
		if !errors.Is(err, nvmeof.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "controllers") {
			t.Fatalf("error %v, want one that names the controllers", err)
		}
		synctest.Wait()
		k.Teardown()
		if _, err := target.Ensure(deadline(t, time.Second), export(hostNew)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRevokeAfterADeadCallerThatDrained(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	k.KillAt(2) // disabled; still on its port, with its controllers and its host
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err == nil {
		t.Fatal("killed, but no error")
	}
	k.Revive()
	k.Trace()
	e, err := newTarget(k).Revoke(t.Context(), volume, hostOld)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(takenDown(hostOld), k.Trace()[:5]); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]uint32{1}, e.LeftDisabled); d != "" {
		t.Errorf("left disabled:\n%s", d)
	}
}

func TestOtherHostsReconnectAfterRevoke(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld, hostToo))
	gone, stays := connect(t, k, hostOld), connect(t, k, hostToo)
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	if gone.Live() || stays.Live() {
		t.Error("a controller outlived the fence")
	}
	if err := gone.Write(1, "late"); !errors.Is(err, nvmeoftest.ErrNotAllowed) {
		t.Errorf("the revoked host writes: %v", err)
	}
	if err := stays.Write(1, "fine"); err != nil {
		t.Errorf("the other host cannot write: %v", err)
	}
	if d := cmp.Diff([]nvmeoftest.Write{{Host: hostToo, Data: "fine"}}, k.Writes(disk)); d != "" {
		t.Errorf("medium:\n%s", d)
	}
}

func TestRevokeDrainsWhatIsInFlight(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	c := connect(t, k, hostOld)
	if err := c.Submit(1, "in flight"); err != nil {
		t.Fatal(err)
	}
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	atReturn := k.Writes(disk)
	k.Complete()
	if d := cmp.Diff(atReturn, k.Writes(disk)); d != "" {
		t.Errorf("landed after the fence:\n%s", d)
	}
	if len(atReturn) != 1 {
		t.Errorf("the drain lost the write: %v", atReturn)
	}
}

func connect(t *testing.T, k *nvmeoftest.Kernel, host string) *nvmeoftest.Controller {
	t.Helper()
	c, err := k.Connect(host, volume, portA)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A bubble of synctest ends only when no goroutine is left, so these tests also
// show that nothing leaks.

func TestDrainThatHangsIsAnErrorAndNeverAFence(t *testing.T) {
	for name, hang := range map[string]func(*nvmeoftest.Kernel, string){
		"the device answers nothing": (*nvmeoftest.Kernel).Hang, "the device answers reads": (*nvmeoftest.Kernel).HangWrites,
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { drainHangs(t, hang) }) })
	}
}

func drainHangs(t *testing.T, hang func(*nvmeoftest.Kernel, string)) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	c := connect(t, k, hostOld)
	if err := c.Submit(1, "in flight"); err != nil {
		t.Fatal(err)
	}
	hang(k, disk)
	target := newTarget(k)

	e, err := target.Revoke(deadline(t, time.Second), volume, hostOld)
	if !errors.Is(err, nvmeof.ErrDrainTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v, want ErrDrainTimeout", err)
	}
	if e.Complete() {
		t.Errorf("evidence of a fence that was not: %+v", e)
	}
	if !strings.Contains(err.Error(), sub+"/namespaces/1/enable") {
		t.Errorf("error does not name the namespace: %v", err)
	}

	// The subsystem is still in the drain: everybody waits, within his time,
	// and the state can be read.
	for name, call := range map[string]func(context.Context) error{
		"revoke": func(ctx context.Context) error { _, err := target.Revoke(ctx, volume, hostOld); return err },
		"ensure": func(ctx context.Context) error { _, err := target.Ensure(ctx, export(hostNew)); return err },
		"remove": func(ctx context.Context) error { _, err := target.Remove(ctx, volume); return err },
	} {
		err := call(deadline(t, time.Second))
		if !errors.Is(err, nvmeof.ErrBusy) && !errors.Is(err, nvmeof.ErrDrainTimeout) || !strings.Contains(err.Error(), "namespaces/1/enable") {
			t.Errorf("%s while the device hangs: %v, want ErrBusy or ErrDrainTimeout naming the step", name, err)
		}
	}
	if _, err := target.Inspect(t.Context(), volume); err != nil {
		t.Errorf("state while the kernel drains: %v", err)
	}

	k.Release(disk)
	synctest.Wait()
	if e, err = target.Revoke(deadline(t, time.Second), volume, hostOld); err != nil || !e.Complete() {
		t.Fatalf("after the device is back: %+v, %v", e, err)
	}
	harmless(t, k, []*nvmeoftest.Controller{c}, 0)
}

// A drive that answers nothing holds its own subsystems and no others.
func TestHungDeviceHoldsNoOtherSubsystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		ensure(t, k, export(hostOld))
		healthy := export(hostOld)
		healthy.NQN += "-healthy"
		id := nvmeof.DeriveUUID(healthy.NQN)
		healthy.Namespaces[0] = nvmeof.Namespace{NSID: 1, DevicePath: disk2, UUID: id, NGUID: id.NGUID()}
		ensure(t, k, healthy)
		k.Hang(disk)
		target := newTarget(k)
		if _, err := target.Revoke(deadline(t, time.Second), volume, hostOld); !errors.Is(err, nvmeof.ErrDrainTimeout) {
			t.Fatalf("error %v, want ErrDrainTimeout", err)
		}
		if _, err := target.Revoke(deadline(t, time.Second), healthy.NQN, hostOld); err != nil {
			t.Errorf("revoke on the healthy device: %v", err)
		}
		healthy.AllowedHosts, healthy.Listeners = []string{hostNew}, append(healthy.Listeners, portB)
		if _, err := target.Ensure(deadline(t, time.Second), healthy); err != nil {
			t.Errorf("ensure on the healthy device: %v", err)
		}
		if _, err := k.Connect(hostNew, healthy.NQN, portA); err != nil {
			t.Errorf("connect to the healthy device: %v", err)
		}
		if _, err := target.Remove(deadline(t, time.Second), healthy.NQN); err != nil {
			t.Errorf("remove on the healthy device: %v", err)
		}
		k.Release(disk)
	})
}

func TestNewProcessWaitsForTheDrainOfADeadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		ensure(t, k, export(hostOld))
		k.HangWrites(disk)
		if _, err := newTarget(k).Revoke(deadline(t, time.Second), volume, hostOld); !errors.Is(err, nvmeof.ErrDrainTimeout) {
			t.Fatal(err)
		}
		// "enable" reads 0 by now; a fence that believed it would be wrong.
		if _, err := newTarget(k).Revoke(deadline(t, time.Second), volume, hostOld); !errors.Is(err, nvmeof.ErrDrainTimeout) {
			t.Fatalf("second process: %v, want ErrDrainTimeout", err)
		}
		k.Release(disk)
		if _, err := newTarget(k).Revoke(deadline(t, time.Second), volume, hostOld); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEnsureAdmitsNobodyWhileTheDrainHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		ensure(t, k, export(hostOld))
		c := connect(t, k, hostOld)
		k.Hang(disk)
		target := newTarget(k)
		if _, err := target.Ensure(deadline(t, time.Second), export(hostNew)); !errors.Is(err, nvmeof.ErrDrainTimeout) {
			t.Fatalf("error %v, want ErrDrainTimeout", err)
		}
		if _, err := k.Connect(hostNew, volume, portA); !errors.Is(err, nvmeoftest.ErrNotAllowed) {
			t.Errorf("the new host got in: %v", err)
		}
		k.Release(disk)
		if _, err := target.Ensure(deadline(t, time.Second), export(hostNew)); err != nil {
			t.Fatal(err)
		}
		harmless(t, k, []*nvmeoftest.Controller{c}, 0)
		connect(t, k, hostNew)
	})
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestRevokeEndsAnyHost(t *testing.T) {
	k := newKernel()
	ensure(t, k, export())
	if err := k.WriteFile(sub+"/attr_allow_any_host", []byte("1")); err != nil {
		t.Fatal(err)
	}
	c := connect(t, k, hostOld)
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	harmless(t, k, []*nvmeoftest.Controller{c}, 0)
}

func TestRevokeStandsWhenTheDeviceIsGone(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	k.FailAt(13, errNoDevice) // enable
	e, err := newTarget(k).Revoke(t.Context(), volume, hostOld)
	if err != nil || !e.Complete() {
		t.Fatalf("%+v, %v", e, err)
	}
	if d := cmp.Diff([]uint32{1}, e.LeftDisabled); d != "" {
		t.Errorf("left disabled:\n%s", d)
	}
}

func TestRevokeFailsWhereAStepFails(t *testing.T) {
	for n := 1; n <= 15; n++ {
		if n == 13 {
			continue // enable, see above
		}
		k := newKernel()
		ensure(t, k, export(hostOld))
		k.FailAt(n, errNoDevice)
		e, err := newTarget(k).Revoke(t.Context(), volume, hostOld)
		if err == nil || e.Complete() {
			t.Errorf("step %d failed, but evidence %+v, error %v", n, e, err)
		}
	}
}

func TestEvidenceTellsWhatWasSeen(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld, hostToo))
	now := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	target := kernel.New(k, kernel.WithClock(func() time.Time { return now }))
	got, err := target.Revoke(t.Context(), volume, hostOld)
	if err != nil {
		t.Fatal(err)
	}
	want := nvmeof.Evidence{
		NQN: volume, Hosts: []string{hostOld}, AllowedHosts: []string{hostToo},
		Drained:   []nvmeof.Drain{{NSID: 1, DevicePath: disk, StartedAt: now, FinishedAt: now}},
		RemovedAt: now, CompletedAt: now,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("evidence (-want +got):\n%s", d)
	}
}
