package kernel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

const (
	volume  = "nqn.2026-02.io.distort:volume-a"
	hostOld = "nqn.2026-01.io.distort:host-00000000000000000000000000000001"
	hostNew = "nqn.2026-01.io.distort:host-00000000000000000000000000000002"
	hostToo = "nqn.2026-01.io.distort:host-00000000000000000000000000000003"
	disk    = "/dev/nvme1n1p1"
	disk2   = "/dev/nvme1n1p2"
)

var (
	portA = mustListener("tcp://10.0.0.1:4420")
	portB = mustListener("rdma://[fd00::1]:4421")
)

func mustListener(s string) nvmeof.Listener {
	l, err := nvmeof.ParseListener(s)
	if err != nil {
		panic(err)
	}
	return l
}

// export is a complete subsystem on disk.
func export(hosts ...string) nvmeof.Subsystem {
	id := nvmeof.DeriveUUID(volume)
	return nvmeof.Subsystem{
		NQN: volume, Serial: "DISTORT1", Model: "DISTORT",
		Namespaces:   []nvmeof.Namespace{{NSID: 1, DevicePath: disk, UUID: id, NGUID: id.NGUID()}},
		AllowedHosts: hosts,
		Listeners:    []nvmeof.Listener{portA},
	}
}

func newKernel() *nvmeoftest.Kernel { return nvmeoftest.NewKernel(nvmeoftest.WithDevices(disk, disk2)) }

// newTarget is a process that has just started: it remembers nothing.
func newTarget(k *nvmeoftest.Kernel) *kernel.Target { return kernel.New(k) }

func ensure(t *testing.T, k *nvmeoftest.Kernel, want nvmeof.Subsystem) nvmeof.Report {
	t.Helper()
	report, err := newTarget(k).Ensure(t.Context(), want)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	return report
}

// inUse is the configuration without hosts and ports that nobody links: a kill
// may leave those, they mean nothing, and the next Remove sweeps them up.
func inUse(k *nvmeoftest.Kernel) []string {
	lines := k.Dump()
	used := map[string]bool{}
	for _, line := range lines {
		from, to, link := strings.Cut(line, " -> ")
		if link {
			used[object(from)], used[object(to)] = true, true
		}
	}
	return slices.DeleteFunc(lines, func(line string) bool {
		shared := strings.HasPrefix(line, "hosts/") || strings.HasPrefix(line, "ports/")
		return shared && object(line) != "" && !used[object(line)]
	})
}

// object is the first two elements of a path: "hosts/NQN" or "ports/1".
func object(line string) string {
	kind, rest, _ := strings.Cut(line, "/")
	name, _, _ := strings.Cut(rest, "/")
	if name == "" {
		return ""
	}
	return kind + "/" + name
}

// operation is something that may be killed anywhere.
type operation struct {
	before []nvmeof.Subsystem
	run    func(*testing.T, *kernel.Target) error
	// revokes tells that hostOld may not write any more once run has succeeded.
	revokes bool
	// then is run after the kill instead of a repetition.
	then func(*testing.T, *kernel.Target) error
	// after is what the caller of a Revoke ensures next: a kill may leave the
	// subsystem half made, or not at all.
	after *nvmeof.Subsystem
}

func ensures(want nvmeof.Subsystem) func(*testing.T, *kernel.Target) error {
	return func(t *testing.T, target *kernel.Target) error {
		_, err := target.Ensure(t.Context(), want)
		return err
	}
}

func revokes(host string) func(*testing.T, *kernel.Target) error {
	return func(t *testing.T, target *kernel.Target) error {
		e, err := target.Revoke(t.Context(), volume, host)
		if err == nil && !e.Complete() {
			t.Errorf("success with incomplete evidence: %+v", e)
		}
		return err
	}
}

func removes(t *testing.T, target *kernel.Target) error {
	_, err := target.Remove(t.Context(), volume)
	return err
}

func operations() map[string]operation {
	two := export(hostOld)
	id := nvmeof.DeriveUUID(volume, "2")
	two.Namespaces = append(two.Namespaces, nvmeof.Namespace{NSID: 2, DevicePath: disk2, UUID: id, NGUID: id.NGUID()})
	two.Listeners = append(two.Listeners, portB)
	moved := export(hostOld)
	moved.Listeners = []nvmeof.Listener{portB}
	repathed := export(hostOld)
	repathed.Namespaces[0].DevicePath, repathed.Namespaces[0].UUID = disk2, id
	sibling := export(hostToo)
	sibling.NQN += "-sibling"
	sibling.Namespaces[0] = nvmeof.Namespace{NSID: 1, DevicePath: disk2, UUID: id, NGUID: id.NGUID()}

	other := export(hostToo)
	nobody := two
	nobody.AllowedHosts = nil

	return map[string]operation{
		"create":                      {run: ensures(two)},
		"grow":                        {before: []nvmeof.Subsystem{export(hostOld)}, run: ensures(two)},
		"shrink":                      {before: []nvmeof.Subsystem{two}, run: ensures(export(hostOld))},
		"change listener":             {before: []nvmeof.Subsystem{export(hostOld)}, run: ensures(moved)},
		"change device and identity":  {before: []nvmeof.Subsystem{export(hostOld)}, run: ensures(repathed)},
		"exchange hosts":              {before: []nvmeof.Subsystem{export(hostOld)}, run: ensures(export(hostNew)), revokes: true},
		"exchange one of two hosts":   {before: []nvmeof.Subsystem{export(hostOld, hostToo)}, run: ensures(export(hostToo, hostNew)), revokes: true},
		"exchange hosts, two devices": {before: []nvmeof.Subsystem{two}, run: ensures(export(hostNew)), revokes: true},
		"revoke":                      {before: []nvmeof.Subsystem{export(hostOld, hostToo)}, run: revokes(hostOld), revokes: true, after: &other},
		"revoke, two devices":         {before: []nvmeof.Subsystem{two}, run: revokes(hostOld), revokes: true, after: &nobody},
		"revoke, then only admit another host": {before: []nvmeof.Subsystem{export(hostOld)}, run: revokes(hostOld),
			then: ensures(export(hostNew)), revokes: true},
		"remove":                  {before: []nvmeof.Subsystem{two}, run: removes, revokes: true},
		"remove beside a sibling": {before: []nvmeof.Subsystem{export(hostOld), sibling}, run: removes, revokes: true},
	}
}

// TestKilledAnywhere kills each operation before each of its effects, repeats it
// with a new process, and expects exactly what an undisturbed run leaves.
func TestKilledAnywhere(t *testing.T) {
	for name, op := range operations() {
		t.Run(name, func(t *testing.T) {
			if op.then == nil {
				op.then = op.run
			}
			undisturbed := newKernel()
			prepare(t, undisturbed, op)
			if err := op.run(t, newTarget(undisturbed)); err != nil {
				t.Fatal(err)
			}
			if err := op.then(t, newTarget(undisturbed)); err != nil {
				t.Fatal(err)
			}
			restore(t, undisturbed, op)
			want := inUse(undisturbed)

			points := 0
			for n := 1; ; n++ {
				k := newKernel()
				old := prepare(t, k, op)
				k.KillAt(n)
				err := op.run(t, newTarget(k))
				if !k.Revive() {
					if err != nil {
						t.Fatalf("undisturbed: %v", err)
					}
					break
				}
				points++
				if err == nil && !strings.HasPrefix(name, "revoke") {
					t.Fatalf("killed before effect %d, but no error", n)
				}
				if err := op.then(t, newTarget(k)); err != nil {
					t.Fatalf("after a kill before effect %d: %v", n, err)
				}
				if op.revokes {
					harmless(t, k, old, n)
				}
				restore(t, k, op)
				if d := cmp.Diff(want, inUse(k)); d != "" {
					t.Fatalf("after a kill before effect %d (-undisturbed +got):\n%s", n, d)
				}
				cleanUp(t, k, n)
			}
			if points == 0 {
				t.Fatal("nothing was killed")
			}
			t.Logf("%d kill points", points)
		})
	}
}

// prepare makes what was before and connects the old host with a write in
// flight on each device.
func prepare(t *testing.T, k *nvmeoftest.Kernel, op operation) []*nvmeoftest.Controller {
	t.Helper()
	var old []*nvmeoftest.Controller
	for _, sub := range op.before {
		ensure(t, k, sub)
		if sub.NQN != volume {
			continue
		}
		c, err := k.Connect(hostOld, volume, sub.Listeners[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, ns := range sub.Namespaces {
			if err := c.Submit(ns.NSID, "in flight"); err != nil {
				t.Fatal(err)
			}
		}
		old = append(old, c)
	}
	return old
}

func restore(t *testing.T, k *nvmeoftest.Kernel, op operation) {
	t.Helper()
	if op.after != nil {
		ensure(t, k, *op.after)
	}
}

// harmless checks that no write of the old host reaches a medium from now on:
// neither what was in flight, nor what it tries now.
func harmless(t *testing.T, k *nvmeoftest.Kernel, old []*nvmeoftest.Controller, n int) {
	t.Helper()
	before := [][]nvmeoftest.Write{k.Writes(disk), k.Writes(disk2)}
	k.Complete()
	for _, c := range old {
		for nsid := uint32(1); nsid <= 2; nsid++ {
			if err := c.Write(nsid, "late"); err == nil {
				t.Errorf("killed before effect %d: the old host writes after it was fenced", n)
			}
		}
	}
	if d := cmp.Diff(before, [][]nvmeoftest.Write{k.Writes(disk), k.Writes(disk2)}); d != "" {
		t.Errorf("killed before effect %d: writes landed after the fence:\n%s", n, d)
	}
	for _, w := range append(before[0], before[1]...) {
		if w.Host != hostOld {
			t.Errorf("unexpected writer %s", w.Host)
		}
	}
}

// cleanUp removes all and expects an empty kernel, whatever was killed before.
func cleanUp(t *testing.T, k *nvmeoftest.Kernel, n int) {
	t.Helper()
	for _, nqn := range []string{volume, volume + "-sibling"} {
		if _, err := newTarget(k).Remove(t.Context(), nqn); err != nil {
			t.Fatalf("clean up after a kill before effect %d: %v", n, err)
		}
	}
	if left := leftovers(k); len(left) > 0 {
		t.Fatalf("left behind after a kill before effect %d:\n%s", n, strings.Join(left, "\n"))
	}
}
