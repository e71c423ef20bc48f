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

func TestRevokeKeepsTheOrderOfTheFence(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld, hostToo))
	k.Trace()
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"unlink " + sub + "/allowed_hosts/" + hostOld,
		"write " + sub + "/namespaces/1/enable 0",
		"write " + sub + "/attr_qid_max 128",
		"write " + sub + "/namespaces/1/enable 1",
		"rmdir hosts/" + hostOld,
	}
	if d := cmp.Diff(want, k.Trace()); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestEnsureFencesBeforeItAdmits(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	k.Trace()
	report := ensure(t, k, export(hostNew))
	want := []string{
		"write " + sub + "/namespaces/1/enable 0", // the mark that a kill leaves
		"unlink " + sub + "/allowed_hosts/" + hostOld,
		"write " + sub + "/namespaces/1/enable 0",
		"write " + sub + "/attr_qid_max 128",
		"rmdir hosts/" + hostOld,
		"write " + sub + "/namespaces/1/enable 1",
		"mkdir hosts/" + hostNew,
		"symlink " + sub + "/allowed_hosts/" + hostNew + " hosts/" + hostNew,
	}
	if d := cmp.Diff(want, k.Trace()); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	if report.Fenced == nil || !report.Fenced.Complete() || report.Fenced.Hosts[0] != hostOld {
		t.Errorf("evidence %+v", report.Fenced)
	}
}

func TestRevokeRepeatsTheDrainThatADeadCallerBegan(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	k.KillAt(3) // unlinked, disabled; the controllers live
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err == nil {
		t.Fatal("killed, but no error")
	}
	k.Revive()
	k.Trace()
	e, err := newTarget(k).Revoke(t.Context(), volume, hostOld)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"write " + sub + "/namespaces/1/enable 0",
		"write " + sub + "/attr_qid_max 128",
		"rmdir hosts/" + hostOld,
	}
	if d := cmp.Diff(want, k.Trace()); d != "" {
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
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		ensure(t, k, export(hostOld))
		c := connect(t, k, hostOld)
		if err := c.Submit(1, "in flight"); err != nil {
			t.Fatal(err)
		}
		k.Hang(disk)
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

		// The kernel is still in the drain: everybody waits, within his time,
		// and the state can be read.
		for name, call := range map[string]func(context.Context) error{
			"revoke": func(ctx context.Context) error { _, err := target.Revoke(ctx, volume, hostOld); return err },
			"ensure": func(ctx context.Context) error { _, err := target.Ensure(ctx, export(hostNew)); return err },
			"remove": func(ctx context.Context) error { _, err := target.Remove(ctx, volume); return err },
		} {
			if err := call(deadline(t, time.Second)); !errors.Is(err, nvmeof.ErrBusy) || !strings.Contains(err.Error(), "namespaces/1/enable") {
				t.Errorf("%s while the kernel drains: %v, want ErrBusy naming the step", name, err)
			}
		}
		state, err := target.Inspect(t.Context(), volume)
		if err != nil || len(state.AllowedHosts) != 0 || state.Namespaces[0].Enabled {
			t.Errorf("state while the kernel drains: %+v, %v", state, err)
		}

		k.Release(disk)
		if e, err = target.Revoke(deadline(t, time.Second), volume, hostOld); err != nil || !e.Complete() {
			t.Fatalf("after the device is back: %+v, %v", e, err)
		}
		harmless(t, k, []*nvmeoftest.Controller{c}, 0)
	})
}

func TestNewProcessWaitsForTheDrainOfADeadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		ensure(t, k, export(hostOld))
		k.Hang(disk)
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

func TestFenceSettlesBeforeItEnables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKernel()
		ensure(t, k, export(hostOld))
		start := time.Now()
		target := kernel.New(k, kernel.WithSettle(time.Minute), kernel.WithClock(time.Now))
		e, err := target.Revoke(t.Context(), volume, hostOld)
		if err != nil {
			t.Fatal(err)
		}
		if e.DisconnectedAt.Sub(start) != time.Minute {
			t.Errorf("settled %s, want 1m", e.DisconnectedAt.Sub(start))
		}
		ensure(t, k, export(hostOld))
		if _, err := target.Revoke(deadline(t, time.Second), volume, hostOld); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait outlives the context: %v", err)
		}
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
	ensure(t, k, export(hostOld, hostToo))
	k.FailAt(4, errNoDevice) // enable
	e, err := newTarget(k).Revoke(t.Context(), volume, hostOld)
	if err != nil || !e.Complete() {
		t.Fatalf("%+v, %v", e, err)
	}
	if d := cmp.Diff([]uint32{1}, e.LeftDisabled); d != "" {
		t.Errorf("left disabled:\n%s", d)
	}
}

func TestRevokeFailsWhereAStepFails(t *testing.T) {
	for n := 1; n <= 3; n++ {
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
	target := kernel.New(k, kernel.WithSettle(0), kernel.WithClock(func() time.Time { return now }))
	got, err := target.Revoke(t.Context(), volume, hostOld)
	if err != nil {
		t.Fatal(err)
	}
	want := nvmeof.Evidence{
		NQN: volume, Hosts: []string{hostOld}, AllowedHosts: []string{hostToo}, UnlinkedAt: now,
		Drained:        []nvmeof.Drain{{NSID: 1, DevicePath: disk, StartedAt: now, FinishedAt: now}},
		DisconnectedAt: now, CompletedAt: now,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("evidence (-want +got):\n%s", d)
	}
}
