package app_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
)

// killers end an agent at its n-th effect of one kind, n from 1. Programs are
// counted from 0; zeroing counts as one.
var killers = map[string]func(w *world, a *agent, n int){
	"before a configfs change": func(w *world, _ *agent, n int) { w.node.Kernel.KillAt(n) },
	"after a configfs change":  func(w *world, _ *agent, n int) { w.node.Kernel.KillAfter(n) },
	"before a program":         func(w *world, _ *agent, n int) { w.node.Drive.Runner().KillBefore(n - 1) },
	"after a program":          func(w *world, _ *agent, n int) { w.node.Drive.Runner().KillAfter(n - 1) },
	"before a program of ZFS":  func(w *world, _ *agent, n int) { w.node.Pools.Runner().KillBefore(n - 1) },
	"after a program of ZFS":   func(w *world, _ *agent, n int) { w.node.Pools.Runner().KillAfter(n - 1) },
	"before an API write":      func(_ *world, a *agent, n int) { a.KillAtWrite(n, false) },
	"after an API write":       func(_ *world, a *agent, n int) { a.KillAtWrite(n, true) },
}

// spdkKillers are those of an agent whose volumes are SPDK's. In the last two it is
// SPDK that ends, starts anew, and has forgotten all but what is on the drive.
var spdkKillers = map[string]func(w *world, a *agent, n int){
	"before a call of SPDK":           func(w *world, _ *agent, n int) { w.node.SPDK.AtChange(n, spdkfake.KillBefore) },
	"after a call of SPDK":            func(w *world, _ *agent, n int) { w.node.SPDK.AtChange(n, spdkfake.KillAfter) },
	"before a change in sysfs":        func(w *world, _ *agent, n int) { w.node.Sysfs.KillAt(n, false) },
	"after a change in sysfs":         func(w *world, _ *agent, n int) { w.node.Sysfs.KillAt(n, true) },
	"before a program":                killers["before a program"],
	"before an API write":             killers["before an API write"],
	"after an API write":              killers["after an API write"],
	"by SPDK's end, before a call":    func(w *world, _ *agent, n int) { w.node.SPDK.AtChange(n, spdkfake.RestartBefore) },
	"by SPDK's end, before an answer": func(w *world, _ *agent, n int) { w.node.SPDK.AtChange(n, spdkfake.RestartAfter) },
}

// site is a kind of storage node.
type site struct {
	name    string
	world   func(t *testing.T) *world
	killers map[string]func(w *world, a *agent, n int)
	flows   []flow
}

func everySite() []site {
	return []site{
		{"kernel", func(t *testing.T) *world { return newWorld(t) }, killers,
			slices.Concat(driveFlows(), poolFlows(), []flow{inventoryFlow()})},
		{"spdk", func(t *testing.T) *world {
			return newWorldOn(t, volumetest.NewSPDKNode(t, nodeName, serial, driveSize))
		}, spdkKillers, driveFlows()},
	}
}

// fresh is a world like this one in which nothing has happened.
func (w *world) fresh() *world {
	if w.node.SPDK != nil {
		return newSPDKWorld(w.t)
	}
	return newWorld(w.t)
}

// ended tells whether what was armed has come.
func (w *world) ended(a *agent) bool {
	return a.Dead() || w.node.SPDK != nil && w.restarts && w.node.SPDK.Faultless()
}

// flow is something that agents do, from a world that is settled to one that is
// settled again.
type flow struct {
	name string
	// arrange comes first; an undisturbed agent settles what it leaves.
	arrange func(*world)
	// action is what the agent that is killed has to deal with.
	action func(*world)
	// run is how an agent deals with it; nil is agent.settle.
	run func(*agent) error
	// meanwhile comes between two agents; nil is nothing.
	meanwhile func(*world)
	// check says what is not as it should be at the end.
	check func(*world) []string
}

// tally is the figure of one flow.
type tally struct{ points, leaks, doubleUses int }

// crash kills an agent at each effect of the flow, lets the next agent finish, and
// counts what is wrong.
func (f flow) crash(t *testing.T, at site, sites *volumetest.Sites, called func(string)) {
	t.Helper()
	var sum tally
	for name, arm := range at.killers {
		for n := 1; ; n++ {
			w := at.world(t)
			w.node.Sites = sites
			if w.node.SPDK != nil {
				w.node.SPDK.Observe(called)
				w.restarts = strings.HasPrefix(name, "by SPDK's end")
			}
			died := f.once(w, func(a *agent) { arm(w, a, n) }, fmt.Sprintf("killed %s, number %d", name, n), &sum)
			w.close()
			if t.Failed() || !died {
				break
			}
			sum.points++
		}
	}
	if sum.points == 0 {
		t.Error("no agent died: the flow proves nothing")
	}
	fmt.Fprintf(os.Stdout, "crash-points: agent backend=%s flow=%s points=%d leaks=%d doubleUses=%d\n", at.name, f.name, sum.points, sum.leaks, sum.doubleUses)
}

// once is one kill, or none, and what comes after it.
func (f flow) once(w *world, arm func(*agent), when string, sum *tally) (died bool) {
	t := w.t
	t.Helper()
	settle := f.run
	if settle == nil {
		settle = (*agent).settle
	}
	f.arrange(w)
	if err := w.boot().settle(); err != nil {
		t.Fatalf("%s: arrange: %v", when, err)
	}
	f.action(w)
	a := w.newAgent()
	arm(a)
	a.start()
	_ = settle(a)
	died = w.ended(a)
	w.node.Revive()
	report := func(count *int, what string, found []string) {
		for _, problem := range found {
			t.Errorf("%s: %s: %s", when, what, problem)
		}
		*count += len(found)
	}
	report(&sum.doubleUses, "double use before the next agent", w.doubleUses())
	if f.meanwhile != nil {
		f.meanwhile(w)
	}
	if err := settle(w.boot()); err != nil {
		t.Errorf("%s: the next agent does not finish: %v", when, err)
	}
	report(&sum.doubleUses, "double use", w.doubleUses())
	report(&sum.leaks, "leak", w.leaks())
	for _, problem := range slices.Concat(w.unfinished(), f.check(w)) {
		t.Errorf("%s: %s", when, problem)
	}
	return died
}

// TestCrashPoints kills the agent at every effect of every flow. It fails when a
// place in the code that has an effect was in no flow.
func TestCrashPoints(t *testing.T) {
	sites := volumetest.NewSites()
	var mu sync.Mutex
	called := map[string]bool{}
	t.Run("flows", func(t *testing.T) {
		for _, at := range everySite() {
			for _, f := range at.flows {
				t.Run(at.name+"/"+f.name, func(t *testing.T) {
					t.Parallel()
					f.crash(t, at, sites, func(method string) {
						mu.Lock()
						defer mu.Unlock()
						called[method] = true
					})
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	for _, method := range spdkMethods(t) {
		if !called[method] {
			t.Errorf("no flow comes to this call of SPDK: %s", method)
		}
	}
	all := effectSites(t)
	for _, site := range sites.Missing(all) {
		t.Errorf("no flow comes to this effect: %s", site)
	}
	t.Logf("%d places with an effect were reached", len(all))
}
