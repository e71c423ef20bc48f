package bench

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/distort-io/distort/e2e/internal/programs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

var (
	measure = flag.Bool("measure", false, "measure, and write docs/performance.md and its plot")
	scale   = flag.String("scale", "100,10000", "how many volumes are there meanwhile, one figure after the other")
	callers = flag.String("callers", "1,32,100", "how many calls are made at a time")
	idle    = flag.Duration("idle", time.Minute, "how long nothing is done, to see what that costs")
	doc     = flag.String("doc", "docs", "folder of performance.md, below the repository's root")
)

// volumesPerDrive is how many volumes a drive is given at most; its table has 128.
const volumesPerDrive = 100

// turns is how often product and floor take turns in one measurement.
const turns = 3

// bench is one run.
type bench struct {
	t       *testing.T
	system  *programs.System
	product *driver
	floor   *floor
	names   int
	result  result
}

// TestMeasure is the benchmark.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("`make bench` measures")
	}
	scales, many := numbers(t, "scale", *scale), numbers(t, "callers", *callers)
	drives := (slices.Max(scales)+perCaller(slices.Max(many)))/volumesPerDrive + 2
	s := programs.Start(t, programs.Options{
		Node: []string{"DISTORT_HELPER_DRIVES=" + strconv.Itoa(drives)}, Fsync: true,
		// One agent stands for a whole cluster of them.
		Flags: map[string][]string{programs.Agent: {"--kube-api-qps=2000", "--kube-api-burst=2000"}, programs.Manager: {"--kube-api-qps=2000", "--kube-api-burst=2000"}},
	})
	b := &bench{t: t, system: s, product: newDriver(s.CSI), floor: newFloor(t, s)}
	b.claim(drives)
	b.result.Machine = machine(t)
	there := 0
	for _, volumes := range scales {
		b.fill(volumes - there)
		there = volumes
		for _, n := range many {
			b.phases(volumes, n)
		}
		b.result.Memory = append(b.result.Memory, memory{volumes, b.rss()})
	}
	b.rest(there)
	b.restart(there)
	must(t, b.result.write(t, *doc))
}

func numbers(t *testing.T, flag, text string) []int {
	t.Helper()
	var out []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			t.Fatalf("-%s=%s: %q must be a number from 1", flag, text, field)
		}
		out = append(out, n)
	}
	return out
}

// perCaller is how many calls are measured with so many callers.
func perCaller(callers int) int { return max(30, 6*callers) }

// claim gives all drives to DISTORT and waits until they can be used.
func (b *bench) claim(drives int) {
	t := b.t
	for i := range drives {
		must(t, b.system.API.Create(t.Context(), &v1alpha1.NVMeDeviceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: programs.Namespace, Name: fmt.Sprintf("drive-%d", i)},
			Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: fmt.Sprintf("INSTANT-%04d", i)},
		}))
	}
	must(t, wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		var devices v1alpha1.NVMeDeviceList
		if err := b.system.API.List(ctx, &devices); err != nil {
			return false, err
		}
		usable := 0
		for _, d := range devices.Items {
			if d.Status.ClaimRef != nil && d.Status.FreeCapacity != nil && *d.Status.FreeCapacity > 0 {
				usable++
			}
		}
		return usable == drives, nil
	}))
}

// more are names that no volume has had.
func (b *bench) more(n int) []string {
	out := make([]string, 0, n)
	for range n {
		b.names++
		out = append(out, fmt.Sprintf("pvc-bench-%06d", b.names))
	}
	return out
}

// fill makes volumes that stay.
func (b *bench) fill(n int) {
	if n <= 0 {
		return
	}
	m, err := run(b.t.Context(), 64, b.more(n), b.product.calls()[0])
	must(b.t, err)
	b.t.Logf("%d volumes made in %s, %.0f each second", n, m.Elapsed.Round(time.Millisecond), m.rate())
}

// phases measures each phase of a volume's life.
func (b *bench) phases(volumes, callers int) {
	n := perCaller(callers) / turns * turns
	rows := map[string]*row{}
	for _, phase := range []string{create, publish, unpublish, remove} {
		r := &row{Volumes: volumes, Callers: callers, Phase: phase}
		rows[phase] = r
		b.result.Rows = append(b.result.Rows, r)
	}
	for range turns {
		names := b.more(n / turns)
		for i, c := range b.product.calls() {
			r := rows[c.phase]
			before := count(b.t, b.system)
			m, err := run(b.t.Context(), callers, names, c)
			must(b.t, err)
			r.Product.add(m)
			r.requests(count(b.t, b.system).since(before))
			m, err = run(b.t.Context(), callers, names, b.floor.calls()[i])
			must(b.t, err)
			r.Floor.add(m)
		}
	}
	// A caller that looks each second takes seconds for each volume.
	names := b.more(max(3, callers))
	for _, c := range b.floor.polling().calls() {
		m, err := run(b.t.Context(), callers, names, c)
		must(b.t, err)
		rows[c.phase].Polling.add(m)
	}
	for _, phase := range []string{create, publish, unpublish, remove} {
		b.t.Log(rows[phase])
	}
}

func (b *bench) rss() map[string]int64 {
	out := map[string]int64{}
	for _, program := range []string{programs.Manager, programs.CSI, programs.Agent} {
		out[program] = b.system.Usage(program).RSS
	}
	return out
}

// settle waits until nothing was written for some seconds: what was measured before may
// still be looked at.
func (b *bench) settle() {
	const quiet = 10 * time.Second
	last, since := count(b.t, b.system).writes(), time.Now()
	must(b.t, wait.PollUntilContextTimeout(b.t.Context(), time.Second, 5*time.Minute, false, func(context.Context) (bool, error) {
		if now := count(b.t, b.system).writes(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) >= quiet, nil
	}))
}

// rest does nothing for a while.
func (b *bench) rest(volumes int) {
	b.settle()
	used := map[string]time.Duration{}
	for _, program := range []string{programs.Manager, programs.CSI, programs.Agent} {
		used[program] = -b.system.Usage(program).CPU
	}
	before := count(b.t, b.system)
	began := time.Now()
	select {
	case <-time.After(*idle):
	case <-b.t.Context().Done():
	}
	for program := range maps.Clone(used) {
		used[program] += b.system.Usage(program).CPU
	}
	b.result.Idle = idleness{Volumes: volumes, For: time.Since(began), CPU: used, Requests: count(b.t, b.system).since(before)}
	b.t.Logf("idle: %+v", b.result.Idle)
}

// restart starts another agent on the same node, and waits until it has looked at all
// volumes.
func (b *bench) restart(volumes int) {
	looked := func() (float64, error) {
		return b.system.Counter(programs.Agent, "controller_runtime_reconcile_total", "controller", "partition")
	}
	before, err := looked()
	must(b.t, err)
	requests := count(b.t, b.system)
	began := time.Now()
	b.system.Order("restart")
	must(b.t, wait.PollUntilContextTimeout(b.t.Context(), 50*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		now, err := looked()
		return err == nil && now-before >= float64(volumes), nil // it does not answer while it ends
	}))
	b.result.Restart = restart{Volumes: volumes, Took: time.Since(began), Requests: count(b.t, b.system).since(requests)}
	b.t.Logf("restart: %+v", b.result.Restart)
}
