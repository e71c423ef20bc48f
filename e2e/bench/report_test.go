package bench

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/e2e/internal/figures"
	"github.com/distort-io/distort/e2e/internal/programs"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// result is what a run has found.
type result struct {
	Machine string
	Rows    []*row
	Memory  []memory
	Idle    idleness
	Restart restart
}

// row is one phase, with so many volumes there and so many callers.
type row struct {
	Volumes, Callers int
	Phase            string

	Product, Floor, Polling measured
	// Requests of the product for its own kinds.
	Requests requests
}

type memory struct {
	Volumes int
	Bytes   map[string]int64 // by program
}

type idleness struct {
	Volumes  int
	For      time.Duration
	CPU      map[string]time.Duration // by program
	Requests requests
}

type restart struct {
	Volumes  int
	Took     time.Duration
	Requests requests
}

func (r *row) requests(more requests) {
	if r.Requests == nil {
		r.Requests = requests{}
	}
	for what, n := range more {
		r.Requests[what] += n
	}
}

func (r *row) toFloor() float64 { return ratio(r.Product.Quantile(.5), r.Floor.Quantile(.5)) }

func (r *row) String() string {
	return fmt.Sprintf("%d volumes, %d callers, %s: p50 %s p99 %s %.0f/s; floor p50 %s p99 %s %.0f/s; each second p50 %s; %v",
		r.Volumes, r.Callers, r.Phase, ms(r.Product.Quantile(.5)), ms(r.Product.Quantile(.99)), r.Product.rate(),
		ms(r.Floor.Quantile(.5)), ms(r.Floor.Quantile(.99)), r.Floor.rate(), ms(r.Polling.Quantile(.5)), r.Requests)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }

func times(f float64) string { return fmt.Sprintf("%.2f ×", f) }

// machine says on what was measured.
func machine(t *testing.T) string {
	t.Helper()
	model := "unknown processor"
	text, err := os.ReadFile("/proc/cpuinfo")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d processors (%s), %s, %s", runtime.NumCPU(), model, runtime.GOOS+"/"+runtime.GOARCH, runtime.Version())
}

// write writes performance.md and its plot.
func (r *result) write(t *testing.T, folder string) error {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		return err
	}
	folder = filepath.Join(root, folder)
	if err := os.WriteFile(filepath.Join(folder, "performance.svg"), []byte(r.plot()), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "performance.md"), []byte(r.page()), 0o644)
}

// plot shows the median of each phase for one caller and for many, at the most volumes.
func (r *result) plot() string {
	most := 0
	for _, row := range r.Rows {
		most = max(most, row.Volumes)
	}
	var groups []figures.Group
	value := func(m measured) float64 { return math.Max(float64(m.Quantile(.5))/float64(time.Millisecond), .1) }
	for _, row := range r.Rows {
		if row.Volumes == most {
			groups = append(groups, figures.Group{Name: fmt.Sprintf("%s, %d at a time", short(row.Phase), row.Callers), Bars: []figures.Bar{
				{Name: "DISTORT", Value: value(row.Product)}, {Name: "the bare writes", Value: value(row.Floor)}, {Name: "looking each second", Value: value(row.Polling)},
			}})
		}
	}
	return figures.Plot(fmt.Sprintf("Median time of a call, with %d volumes there", most), "ms", groups)
}

func short(phase string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(phase, "Controller"), "Volume"))
}

func (r *result) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Performance

Made by `+"`make bench`"+`: the three programs against a real kube-apiserver and etcd (with
fsync), with storage that answers at once, so that what is measured is the control
plane. In turns with them ran two floors: the same API writes of the same objects by
parties that do nothing else and are woken by watches, and the same with a caller that
looks each second, as many drivers do. Times are those of the machine; the ratios are
what counts.

Measured on %s. One agent stands for all storage
nodes, and has all volumes: what is linear in the volumes of one node is linear here.

![Median times](performance.svg)

## Calls

`, r.Machine)
	rows := [][]string{{"call", "volumes there", "callers", "p50", "p99", "calls/s", "p50 to floor", "rate to floor", "faster than looking each second"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			row.Phase, fmt.Sprint(row.Volumes), fmt.Sprint(row.Callers), ms(row.Product.Quantile(.5)), ms(row.Product.Quantile(.99)),
			fmt.Sprintf("%.0f", row.Product.rate()), times(row.toFloor()), fmt.Sprintf("%.0f %%", 100*row.Product.rate()/row.Floor.rate()),
			times(ratio(row.Polling.Quantile(.5), row.Product.Quantile(.5))),
		})
	}
	b.WriteString(figures.Table(rows))
	b.WriteString("\n## Requests of each call\n\nThose for DISTORT's own objects, as the API server counted them, at the most volumes and callers.\n\n")
	b.WriteString(r.requestsTable())
	b.WriteString("\n## Growth\n\nHow the 99th percentile grows with the volumes that are there: 0 is flat, 1 is linear.\n\n")
	b.WriteString(r.growthTable())
	b.WriteString("\n## Memory, idleness, restart\n\n")
	memoryRows := [][]string{{"volumes", "manager", "csi", "agent, with its storage in memory"}}
	for _, m := range r.Memory {
		mib := func(program string) string { return fmt.Sprintf("%d MiB", m.Bytes[program]>>20) }
		memoryRows = append(memoryRows, []string{fmt.Sprint(m.Volumes), mib(programs.Manager), mib(programs.CSI), mib(programs.Agent)})
	}
	b.WriteString(figures.Table(memoryRows))
	perMinute := func(program string) string {
		return fmt.Sprintf("%.2f s", r.Idle.CPU[program].Seconds()*float64(time.Minute)/float64(r.Idle.For))
	}
	fmt.Fprintf(&b, "\nIdle with %d volumes, each minute takes %s of a processor for the manager, %s for csi and %s for the agent; in %s there were %.0f writes of DISTORT's objects.\n",
		r.Idle.Volumes, perMinute(programs.Manager), perMinute(programs.CSI), perMinute(programs.Agent), r.Idle.For.Round(time.Second), r.Idle.Requests.writes())
	fmt.Fprintf(&b, "\nAn agent that is started anew with %d volumes of its own has looked at each after %.1f s, with %.0f writes.\n",
		r.Restart.Volumes, r.Restart.Took.Seconds(), r.Restart.Requests.writes())
	b.WriteString("\n## Against the targets\n\n")
	b.WriteString(r.targets())
	return b.String()
}

// requestsTable has the requests of each phase for one volume.
func (r *result) requestsTable() string {
	rows := [][]string{{"call", "requests for one volume"}}
	last := r.Rows[max(0, len(r.Rows)-4):]
	for _, row := range last {
		var said []string
		for _, what := range slices.Sorted(maps.Keys(row.Requests)) {
			said = append(said, fmt.Sprintf("%.2f %s", row.Requests[what]/float64(len(row.Product.Sample)), what))
		}
		rows = append(rows, []string{row.Phase, strings.Join(said, ", ")})
	}
	return figures.Table(rows)
}

// growth are the exponents of the 99th percentile, by phase and callers.
func (r *result) growth() map[string]map[int]float64 {
	points := map[string]map[int][]figures.Point{}
	for _, row := range r.Rows {
		if points[row.Phase] == nil {
			points[row.Phase] = map[int][]figures.Point{}
		}
		points[row.Phase][row.Callers] = append(points[row.Phase][row.Callers], figures.Point{X: float64(row.Volumes), Y: float64(row.Product.Quantile(.99))})
	}
	out := map[string]map[int]float64{}
	for phase, byCallers := range points {
		out[phase] = map[int]float64{}
		for callers, p := range byCallers {
			out[phase][callers] = figures.Exponent(p)
		}
	}
	return out
}

func (r *result) growthTable() string {
	growth := r.growth()
	head := []string{"call"}
	many := slices.Sorted(maps.Keys(growth[create]))
	for _, n := range many {
		head = append(head, fmt.Sprintf("%d callers", n))
	}
	rows := [][]string{head}
	for _, phase := range []string{create, publish, unpublish, remove} {
		line := []string{phase}
		for _, n := range many {
			text := "one size alone"
			if e := growth[phase][n]; !math.IsNaN(e) {
				text = fmt.Sprintf("%+.3f", e)
			}
			line = append(line, text)
		}
		rows = append(rows, line)
	}
	return figures.Table(rows)
}

// targets says which of the limits are met.
func (r *result) targets() string {
	rows := [][]string{{"target", "measured", "met"}}
	add := func(target string, met bool, format string, args ...any) {
		word := "**no**"
		if met {
			word = "yes"
		}
		rows = append(rows, []string{target, fmt.Sprintf(format, args...), word})
	}
	for _, row := range r.Rows {
		who := fmt.Sprintf("%s, %d volumes, %d callers", row.Phase, row.Volumes, row.Callers)
		switch row.Callers {
		case 1:
			add("p50 ≤ 2.5 × the floor: "+who, row.toFloor() <= 2.5, "%.2f ×", row.toFloor())
			faster := ratio(row.Polling.Quantile(.5), row.Product.Quantile(.5))
			add("≥ 20 × faster than looking each second: "+who, faster >= 20, "%.0f ×", faster)
		case 100:
			rate := row.Product.rate() / row.Floor.rate()
			add("rate ≥ 70 % of the floor: "+who, rate >= .7, "%.0f %%", 100*rate)
			p99 := row.Product.Quantile(.99)
			add("p99 < 2 s: "+who, p99 < 2*time.Second, "%s", ms(p99))
		}
	}
	growth := r.growth()
	for _, phase := range []string{create, publish, unpublish, remove} {
		for _, n := range slices.Sorted(maps.Keys(growth[phase])) {
			if e := growth[phase][n]; !math.IsNaN(e) {
				add(fmt.Sprintf("growth of p99 ≤ 0.05: %s, %d callers", phase, n), e <= .05, "%+.3f", e)
			}
		}
	}
	if len(r.Memory) > 0 {
		last := r.Memory[len(r.Memory)-1]
		add(fmt.Sprintf("manager's memory ≤ 90 MiB: %d volumes", last.Volumes), last.Bytes[programs.Manager] <= 90<<20, "%d MiB", last.Bytes[programs.Manager]>>20)
	}
	for _, program := range slices.Sorted(maps.Keys(r.Idle.CPU)) {
		used := r.Idle.CPU[program].Seconds() * float64(time.Minute) / float64(r.Idle.For)
		add(fmt.Sprintf("idle ≤ 0.1 s each minute: %s, %d volumes", program, r.Idle.Volumes), used <= .1, "%.2f s", used)
	}
	add(fmt.Sprintf("restart ≤ 3 s without a write: %d volumes", r.Restart.Volumes), r.Restart.Took <= 3*time.Second && r.Restart.Requests.writes() == 0,
		"%.1f s, %.0f writes", r.Restart.Took.Seconds(), r.Restart.Requests.writes())
	return figures.Table(rows)
}

// TestPageSaysWhatWasMeasured, and which target was missed.
func TestPageSaysWhatWasMeasured(t *testing.T) {
	sample := func(d time.Duration) measured {
		return measured{figures.Sample{d, d}, 2 * d}
	}
	r := &result{Machine: "a machine"}
	for _, volumes := range []int{100, 10000} {
		for _, phase := range []string{create, publish, unpublish, remove} {
			r.Rows = append(r.Rows, &row{
				Volumes: volumes, Callers: 1, Phase: phase, Product: sample(time.Duration(volumes) * time.Millisecond),
				Floor: sample(80 * time.Millisecond), Polling: sample(3 * time.Second), Requests: requests{"POST nvmepartitions": 2},
			})
		}
		r.Memory = append(r.Memory, memory{volumes, map[string]int64{programs.Manager: 91 << 20, programs.CSI: 1 << 20, programs.Agent: 1 << 20}})
	}
	r.Idle = idleness{10000, time.Minute, map[string]time.Duration{programs.Manager: 50 * time.Millisecond}, requests{"LIST nvmedevices": 1}}
	r.Restart = restart{10000, 2 * time.Second, requests{"PATCH nvmedevices/status": 1}}
	page := r.page()
	for _, text := range []string{
		"a machine", "1.00 POST nvmepartitions", "+1.000", "0 writes of DISTORT's objects", "after 2.0 s, with 1 writes",
		"1.25 ×", "125.00 ×", "91 MiB",
	} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q:\n%s", text, page)
		}
	}
	for text, met := range map[string]string{
		"p50 ≤ 2.5 × the floor: CreateVolume, 100 volumes": "yes", "p50 ≤ 2.5 × the floor: CreateVolume, 10000 volumes": "**no**",
		"manager's memory": "**no**", "idle ≤ 0.1 s": "yes", "restart ≤ 3 s": "**no**", "growth of p99": "**no**",
	} {
		found := false
		for line := range strings.Lines(page) {
			if strings.Contains(line, text) {
				found = true
				if !strings.Contains(line, "| "+met+" ") {
					t.Errorf("%s, want met: %s", line, met)
				}
			}
		}
		if !found {
			t.Errorf("no target %q", text)
		}
	}
	if svg := r.plot(); !strings.Contains(svg, "create, 1 at a time") {
		t.Error(svg)
	}
}
