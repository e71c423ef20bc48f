package spdk_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
)

// versions are those whose remove_host differs: the one does not wait for the host's
// I/O, the other waits and then gives up.
var versions = map[string]spdkfake.Option{"v26.01": spdkfake.WithVersion(26, 1), "v26.05": spdkfake.WithVersion(26, 5)}

func connect(t *testing.T, fake *spdkfake.Server, host string) *spdkfake.Host {
	t.Helper()
	h, err := fake.Connect(host, volume, portA)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func submit(t *testing.T, h *spdkfake.Host, data string) {
	t.Helper()
	if err := h.Submit(1, data); err != nil {
		t.Fatal(err)
	}
}

// TestFenceWaitsForWhatIsInFlight: whatever SPDK answers, nobody is told that the
// host is fenced, and nobody else is admitted, before its last write has landed.
func TestFenceWaitsForWhatIsInFlight(t *testing.T) {
	for name, version := range versions {
		for what, fence := range map[string]func(context.Context, *spdk.Target) error{
			"revoke": revokes, "ensure": ensures(export(hostNew)), "remove": removes,
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				fake := start(t, version, spdkfake.WithHostTimeout(10*time.Millisecond))
				ensure(t, target(t, fake), export(hostOld))
				submit(t, connect(t, fake, hostOld), "in flight")

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := make(chan error, 1)
				go func() { first <- fence(ctx, target(t, fake)) }()
				awaitFence(t, fake, first, what)
				cancel()
				if err := <-first; !errors.Is(err, nvmeof.ErrDrainTimeout) {
					t.Errorf("given up with a write in flight: %v, want ErrDrainTimeout", err)
				}
				if _, err := fake.Connect(hostNew, volume, portA); err == nil {
					t.Error("the next host was admitted while the old one writes")
				}
				done := make(chan error, 1)
				again := func() { done <- fence(t.Context(), target(t, fake)) }
				if what == "remove" { // SPDK refuses a second one in the middle of the first
					fake.Complete()
					again()
				} else {
					go again()
					awaitFence(t, fake, done, what)
					fake.Complete()
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				landed := fake.Writes("A")
				fake.Complete()
				if d := cmp.Diff([]spdkfake.Write{{Host: hostOld, Data: "in flight"}}, landed); d != "" {
					t.Error(d)
				}
				if d := cmp.Diff(landed, fake.Writes("A")); d != "" {
					t.Errorf("landed after the fence:\n%s", d)
				}
			})
		}
	}
}

// awaitFence waits until the fence has called SPDK often enough to be waiting, and
// fails if it ends.
func awaitFence(t *testing.T, fake *spdkfake.Server, done <-chan error, what string) {
	t.Helper()
	calls := map[string]int{"remove": 2}[what] // SPDK itself waits then
	if calls == 0 {
		calls = 12
	}
	for before := fake.Calls(); fake.Calls() < before+calls; runtime.Gosched() {
		select {
		case err := <-done:
			t.Fatalf("ended with a write in flight: %v", err)
		default:
		}
	}
}

// TestHostThatNobodyAdmitted is connected and not on the list: SPDK disconnects it
// by no call for it.
func TestHostThatNobodyAdmitted(t *testing.T) {
	for name, version := range versions {
		for what, fence := range map[string]func(context.Context, *spdk.Target) error{"revoke": revokes, "ensure": ensures(export(hostNew))} {
			for how, allowed := range map[string]bool{"any host is allowed still": true, "any host was allowed": false} {
				t.Run(name+", "+what+", "+how, func(t *testing.T) {
					fake := start(t, version)
					ensure(t, target(t, fake), export(hostNew))
					c := client(t, fake)
					call(t, c, "nvmf_subsystem_allow_any_host", `{"nqn":"`+volume+`","allow_any_host":true}`)
					old := connect(t, fake, hostOld)
					if !allowed {
						call(t, c, "nvmf_subsystem_allow_any_host", `{"nqn":"`+volume+`","allow_any_host":false}`)
					}
					if err := fence(t.Context(), target(t, fake)); err != nil {
						t.Fatal(err)
					}
					if err := old.Write(1, "late"); !errors.Is(err, spdkfake.ErrDisconnected) {
						t.Errorf("it writes: %v", err)
					}
					if _, err := fake.Connect(hostOld, volume, portA); err == nil {
						t.Error("it is let in again")
					}
					ensure(t, target(t, fake), export(hostNew))
				})
			}
		}
	}
}

func TestOtherHostsNoticeNothing(t *testing.T) {
	fake := start(t)
	ensure(t, target(t, fake), export(hostOld, hostToo))
	old, other := connect(t, fake, hostOld), connect(t, fake, hostToo)
	e, err := target(t, fake).Revoke(t.Context(), volume, hostOld)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Write(1, "other"); err != nil {
		t.Errorf("the other host: %v", err)
	}
	if err := old.Write(1, "old"); err == nil {
		t.Error("the old host writes")
	}
	if !strings.Contains(e.String(), "no controller of theirs at") || e.RemovedAt.Before(e.DisconnectedAt) && !e.RemovedAt.IsZero() {
		t.Errorf("evidence %s", e)
	}
}

func TestEvidenceIsStampedByTheClock(t *testing.T) {
	fake := start(t)
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	target := spdk.New(client(t, fake), spdk.WithClock(func() time.Time { return now }))
	ensure(t, target, export(hostOld))
	e, err := target.Revoke(t.Context(), volume, hostOld)
	if err != nil || e.CompletedAt != now || e.DisconnectedAt != now {
		t.Errorf("%+v, %v", e, err)
	}
}
