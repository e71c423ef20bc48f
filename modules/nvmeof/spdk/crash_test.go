package spdk_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
)

// operation is something that may be interrupted at any call.
type operation struct {
	before []nvmeof.Subsystem
	run    func(context.Context, *spdk.Target) error
	// then is run afterwards instead of a repetition.
	then func(context.Context, *spdk.Target) error
	// revokes tells that hostOld may not write any more once then has succeeded.
	revokes bool
	// removes tells that run deletes the subsystem, which nothing else may do.
	removes bool
	// after is what must be there in the end.
	after []nvmeof.Subsystem
}

func ensures(want nvmeof.Subsystem) func(context.Context, *spdk.Target) error {
	return func(ctx context.Context, target *spdk.Target) error {
		_, err := target.Ensure(ctx, want)
		return err
	}
}

func revokes(ctx context.Context, target *spdk.Target) error {
	e, err := target.Revoke(ctx, volume, hostOld)
	if err == nil && !e.Complete() {
		return fmt.Errorf("success with incomplete evidence: %+v", e)
	}
	return err
}

func removes(ctx context.Context, target *spdk.Target) error {
	_, err := target.Remove(ctx, volume)
	return err
}

func operations() map[string]operation {
	two := export(hostOld)
	id := nvmeof.DeriveUUID(volume, "2")
	two.Namespaces = append(two.Namespaces, nvmeof.Namespace{NSID: 2, DevicePath: diskB, UUID: id, NGUID: id.NGUID()})
	two.Listeners = append(two.Listeners, portB)
	moved := export(hostOld)
	moved.Listeners = []nvmeof.Listener{portB}
	repathed := export(hostOld)
	repathed.Namespaces[0].DevicePath, repathed.Namespaces[0].UUID = diskB, id
	sibling := export(hostToo)
	sibling.NQN += "-sibling"
	sibling.Namespaces[0] = nvmeof.Namespace{NSID: 1, DevicePath: diskB, UUID: id, NGUID: id.NGUID()}
	one, both := export(hostOld), export(hostOld, hostToo)
	list := func(s ...nvmeof.Subsystem) []nvmeof.Subsystem { return s }

	return map[string]operation{
		"create":                     {run: ensures(two), after: list(two)},
		"grow":                       {before: list(one), run: ensures(two), after: list(two)},
		"shrink":                     {before: list(two), run: ensures(one), after: list(one)},
		"change listener":            {before: list(one), run: ensures(moved), after: list(moved)},
		"change device and identity": {before: list(one), run: ensures(repathed), after: list(repathed)},
		"exchange hosts":             {before: list(one), run: ensures(export(hostNew)), revokes: true, after: list(export(hostNew))},
		"exchange one of two hosts":  {before: list(both), run: ensures(export(hostToo, hostNew)), revokes: true, after: list(export(hostToo, hostNew))},
		"revoke":                     {before: list(both), run: revokes, revokes: true, after: list(export(hostToo))},
		"revoke, then only admit another host": {before: list(one), run: revokes, then: ensures(export(hostNew)), revokes: true,
			after: list(export(hostNew))},
		"remove":                  {before: list(two), run: removes, revokes: true, removes: true},
		"remove beside a sibling": {before: list(one, sibling), run: removes, revokes: true, removes: true, after: list(sibling)},
	}
}

// TestInterruptedAnywhere kills this process, or restarts the target, before and
// after each call of each operation. A new process then does it again, and what it
// leaves is exactly what was wanted; nothing of it outlives its removal.
func TestInterruptedAnywhere(t *testing.T) {
	for name, op := range operations() {
		if op.then == nil {
			op.then = op.run
		}
		for fault, what := range map[spdkfake.Fault]string{spdkfake.KillBefore: "killed before", spdkfake.KillAfter: "killed after",
			spdkfake.RestartBefore: "restarted before", spdkfake.RestartAfter: "restarted after"} {
			t.Run(name+", "+what, func(t *testing.T) {
				n := 1
				for ; interrupt(t, op, fault, n); n++ {
				}
				if n < 3 {
					t.Fatalf("only %d calls were interrupted", n-1)
				}
				t.Logf("%d points", n-1)
			})
		}
	}
}

// interrupt tells whether the operation had an n-th call.
func interrupt(t *testing.T, op operation, fault spdkfake.Fault, n int) bool {
	fake := start(t)
	defer fake.Close()
	old := prepare(t, fake, op)
	fake.Trace()
	fake.At(n, fault)
	err := op.run(t.Context(), target(t, fake))
	met := fake.Faultless()
	if !met && err != nil {
		t.Fatalf("undisturbed: %v", err)
	}
	fake.Clear()
	restarted := met && (fault == spdkfake.RestartBefore || fault == spdkfake.RestartAfter)
	if restarted {
		// It has forgotten everything; the owner of the volumes makes them again.
		bdevs(t, client(t, fake), "A", "B")
		for _, want := range op.before {
			if want.NQN != volume {
				ensure(t, target(t, fake), want)
			}
		}
	}
	fresh := target(t, fake)
	if err := op.then(t.Context(), fresh); err != nil {
		t.Fatalf("at call %d, again: %v", n, err)
	}
	if restarted {
		for _, want := range op.after {
			ensure(t, fresh, want)
		}
	}
	if op.revokes {
		harmless(t, fake, op, old, n)
	}
	exactly(t, fresh, op.after, n)
	deleted := slices.ContainsFunc(fake.Trace(), func(line string) bool { return strings.HasPrefix(line, "nvmf_delete_subsystem") })
	if deleted && !op.removes {
		t.Errorf("at call %d: a subsystem was deleted", n)
	}
	for _, nqn := range []string{volume, volume + "-sibling"} {
		if _, err := fresh.Remove(t.Context(), nqn); err != nil {
			t.Fatalf("at call %d, clean up: %v", n, err)
		}
	}
	exactly(t, fresh, nil, n)
	// The bdevs are free again.
	for _, name := range []string{"A", "B"} {
		call(t, client(t, fake), "bdev_malloc_delete", `{"name":"`+name+`"}`)
	}
	return met
}

func prepare(t *testing.T, fake *spdkfake.Server, op operation) *spdkfake.Host {
	t.Helper()
	var old *spdkfake.Host
	for _, sub := range op.before {
		ensure(t, target(t, fake), sub)
		if sub.NQN != volume {
			continue
		}
		var err error
		if old, err = fake.Connect(hostOld, volume, sub.Listeners[0]); err != nil {
			t.Fatal(err)
		}
	}
	return old
}

// harmless checks that the old host neither writes nor comes back.
func harmless(t *testing.T, fake *spdkfake.Server, op operation, old *spdkfake.Host, n int) {
	t.Helper()
	if old.Write(1, "late") == nil {
		t.Errorf("at call %d: the old host writes after it was fenced", n)
	}
	for _, l := range op.before[0].Listeners {
		if _, err := fake.Connect(hostOld, volume, l); err == nil {
			t.Errorf("at call %d: the old host is let in again", n)
		}
	}
}

// exactly checks that the target has these subsystems and no others.
func exactly(t *testing.T, target *spdk.Target, want []nvmeof.Subsystem, n int) {
	t.Helper()
	states, err := target.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]nvmeof.Difference{}
	for _, s := range states {
		got[s.NQN] = []nvmeof.Difference{{Field: "subsystem", Want: "absent", Got: "present"}}
		for _, w := range want {
			if w.NQN == s.NQN {
				got[s.NQN] = nvmeof.Diff(w, s)
			}
		}
	}
	expect := map[string][]nvmeof.Difference{}
	for _, w := range want {
		expect[w.NQN] = nil
	}
	if d := cmp.Diff(expect, got); d != "" {
		t.Fatalf("at call %d (-want +got):\n%s", n, d)
	}
}

// TestAnswersThatComeLate: a call ends with its context while SPDK goes on with it.
// The next one waits for SPDK, and no two changes meet there.
func TestAnswersThatComeLate(t *testing.T) {
	for name, op := range operations() {
		if op.then == nil {
			op.then = op.run
		}
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				fake := start(t)
				prepare(t, fake, op)
				c := client(t, fake)
				fake.At(n, spdkfake.Late)
				ctx, cancel := context.WithCancel(t.Context())
				first := make(chan error, 1)
				go func() { first <- op.run(ctx, spdk.New(c)) }()
				met := false
				for done := false; !done && !met; met = fake.Faultless() {
					select {
					case err := <-first:
						if done = true; err != nil && !fake.Faultless() {
							t.Fatalf("undisturbed: %v", err)
						}
						first <- err
					default:
						runtime.Gosched()
					}
				}
				cancel()
				<-first
				fake.Clear()
				again := make(chan error, 1)
				go func() { again <- op.then(t.Context(), spdk.New(c)) }()
				fake.Release()
				if err := <-again; err != nil {
					t.Fatalf("call %d late, again: %v", n, err)
				}
				exactly(t, spdk.New(c), op.after, n)
				if !met {
					return
				}
			}
		})
	}
}
