package zfstest_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/zfs/zfstest"
)

// recording is one call of ZFS 2.3.2 on Linux 6.12.
type recording struct {
	Name    string   `json:"name"`
	Argv    []string `json:"argv"`
	Exit    *int     `json:"exit"`
	Timeout bool     `json:"timeout"`
	Stdout  string   `json:"stdout"`
	Stderr  string   `json:"stderr"`
}

func recordings(t *testing.T) []recording {
	t.Helper()
	f, err := os.Open("testdata/zfs-recordings.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []recording
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// tankBytes is what the datasets of the recorded pool could take.
const tankBytes = 2818572288

// must runs what the recordings left out between two calls.
func must(t *testing.T, h *zfstest.Host, calls ...string) {
	t.Helper()
	for _, call := range calls {
		argv := strings.Split(call, " ")
		if _, err := h.Runner().Run(t.Context(), command.New(argv[0], argv[1:]...)); err != nil {
			t.Fatal(err)
		}
	}
}

func open(h *zfstest.Host, datasets ...string) {
	paths := map[string]bool{}
	for _, z := range h.Zvols() {
		paths[z.Path] = slices.Contains(datasets, z.Dataset)
	}
	h.SetOpen(paths)
}

// before is what changed before a recording without being recorded.
var before = map[string]func(*testing.T, *zfstest.Host){
	"zfs-create-V-ok": func(_ *testing.T, h *zfstest.Host) {
		h.Take("tank")
		h.Import("tank", "16223331268497365322", tankBytes)
	},
	"zpool-list-mirror-online": func(_ *testing.T, h *zfstest.Host) { h.Import("mir", "77", 1<<30) },
	"zpool-list-degraded":      func(_ *testing.T, h *zfstest.Host) { h.SetHealth("mir", "DEGRADED") },
	"zpool-list-corrupt-side":  func(_ *testing.T, h *zfstest.Host) { h.SetHealth("mir", "ONLINE") },
	"zfs-create-fs-quota": func(t *testing.T, h *zfstest.Host) {
		h.Take("mir")
		for _, name := range append(long(t, h), "tank/-dash", "tank/a b", "tank/a:b", "tank/.hid", "tank/A", "tank/a") {
			if _, err := h.Runner().Run(t.Context(), command.New("zfs", "destroy", name)); err != nil {
				t.Fatal(err)
			}
		}
	},
	"quota-below-used":      func(_ *testing.T, h *zfstest.Host) { h.Fill("tank/q1", 32<<20) },
	"quota-grow":            func(_ *testing.T, h *zfstest.Host) { h.Fill("tank/q1", 24576) },
	"destroy-zvol-open":     func(_ *testing.T, h *zfstest.Host) { open(h, "tank/v1") },
	"volsize-grow-exported": func(_ *testing.T, h *zfstest.Host) { open(h, "tank/v1") },
	"snapshot-ok":           func(_ *testing.T, h *zfstest.Host) { open(h) },
	"hold-ok":               func(t *testing.T, h *zfstest.Host) { must(t, h, "zfs snapshot tank/v1@h1") },
	"hold-tag-200":          func(t *testing.T, h *zfstest.Host) { must(t, h, "zfs snapshot tank/v1@h2") },
	"promote-ok": func(t *testing.T, h *zfstest.Host) {
		must(t, h, "zfs release "+strings.Repeat("t", 200)+" tank/v1@h2", "zfs destroy tank/v1@h2", "zfs snapshot tank/v1@p1", "zfs clone tank/v1@p1 tank/pc")
	},
	"promote-conflict": func(t *testing.T, h *zfstest.Host) {
		must(t, h, "zfs promote tank/v1", "zfs snapshot tank/v1@p2", "zfs clone tank/v1@p2 tank/pd", "zfs snapshot tank/pd@p1")
	},
	"destroy-has-children": func(t *testing.T, h *zfstest.Host) { must(t, h, "zfs create tank/par", "zfs create -V 16M tank/par/c") },
	"destroy-ok":           func(t *testing.T, h *zfstest.Host) { must(t, h, "zfs create -p -V 16M tank/npar/x") },
	"import-missing-name":  func(_ *testing.T, h *zfstest.Host) { h.Import("solo", "4193961674940177254", 1<<30) },
	"ro-create": func(t *testing.T, h *zfstest.Host) {
		must(t, h, "zfs create -V 16M solo/v")
		h.SetReadOnly("solo", true)
	},
	"sus-before": func(t *testing.T, h *zfstest.Host) {
		h.Take("solo")
		h.Import("sus", "5", 1<<30)
		must(t, h, "zfs create -V 64M sus/v")
	},
	"sus-list":          func(_ *testing.T, h *zfstest.Host) { h.SetHealth("sus", "SUSPENDED") },
	"sus-list-restored": func(_ *testing.T, h *zfstest.Host) { h.SetHealth("sus", "ONLINE") },
	"gone-failmode": func(t *testing.T, h *zfstest.Host) {
		h.Take("sus")
		h.Import("gone", "6", 1<<30)
		must(t, h, "zfs create -V 64M gone/v")
	},
	"gone-list":         func(_ *testing.T, h *zfstest.Host) { h.Pull("gone", true) },
	"gone-list-cleared": func(_ *testing.T, h *zfstest.Host) { h.SetHealth("gone", "SUSPENDED") },
	"ns-create": func(_ *testing.T, h *zfstest.Host) {
		h.Take("tank")
		h.Import("tank", "16223331268497365322", tankBytes)
	},
	"ns-fill":                func(_ *testing.T, h *zfstest.Host) { h.Fill("tank/fat", 250<<20) },
	"snapshot-no-space-real": func(t *testing.T, h *zfstest.Host) { must(t, h, "zfs create -V 550M tank/rest") },
	"hold-tag-255":           func(t *testing.T, h *zfstest.Host) { must(t, h, "zfs snapshot tank/fat@h") },
}

// long are the datasets with names that try the limit.
func long(t *testing.T, h *zfstest.Host) []string {
	t.Helper()
	result, err := h.Runner().Run(t.Context(), command.New("zfs", "list", "-Hp", "-o", "name"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(result.Stdout)), func(name string) bool { return len(name) < 100 })
}

// unmodelled says why the fake does not do a call at all, or "".
func unmodelled(r recording) string {
	has := func(arg string) bool { return slices.Contains(r.Argv, arg) }
	switch {
	case len(r.Argv) == 0:
		return "a note, not a call"
	case r.Timeout || r.Exit == nil:
		return "it never returned"
	case r.Argv[0] != "zfs" && r.Argv[0] != "zpool":
		return "another program, or a shell"
	case len(r.Argv) < 2:
		return "no subcommand"
	case has("-j"):
		return "JSON: the product reads the scripted format"
	case has("all"):
		return "every property at once"
	case strings.HasPrefix(r.Name, "enc-"):
		return "encryption"
	case r.Argv[0] == "zpool" && r.Argv[1] != "list" && r.Argv[1] != "get":
		return "zpool " + r.Argv[1] + ": the product never does that"
	case r.Argv[0] == "zfs" && !slices.Contains([]string{"create", "get", "list", "set", "inherit", "destroy", "snapshot", "clone", "promote", "hold", "release"}, r.Argv[1]):
		return "zfs " + r.Argv[1] + ": the product does not do that"
	}
	return ""
}

// exceptions are recordings in which the fake differs, with the reason.
var exceptions = map[string]string{
	"promote-origin": "ZFS lists the zvol that has the snapshots first",
	"list-after":     "needs the imports before it",
	"multihost-get":  "needs the zpool set before it",
}

// volatile are properties whose values differ from run to run, or whose arithmetic
// the fake does not have.
var volatile = []string{"guid", "creation", "used", "available", "avail", "referenced", "refer", "logicalused", "free", "allocated", "size", "fragmentation", "capacity"}

var number = regexp.MustCompile(`^[0-9.]+$`)

// mask hides values that are volatile.
func mask(r recording, text string) string {
	var columns []string
	if at := slices.Index(r.Argv, "-o"); at >= 0 {
		columns = strings.Split(r.Argv[at+1], ",")
	}
	isList := r.Argv[1] == "list"
	var out []string
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Split(line, "\t")
		for i := range cells {
			var hide bool
			switch {
			case isList && columns == nil:
				hide = number.MatchString(cells[i])
			case isList:
				hide = i < len(columns) && slices.Contains(volatile, columns[i]) && number.MatchString(cells[i])
			case columns != nil && len(cells) == 1:
				hide = slices.Contains(volatile, r.Argv[len(r.Argv)-2]) && number.MatchString(cells[i])
			default:
				hide = i == 2 && slices.Contains(volatile, cells[1]) && number.MatchString(cells[i])
			}
			if hide {
				cells[i] = "#"
			}
		}
		out = append(out, strings.Join(cells, "\t"))
	}
	return strings.Join(out, "\n")
}

// help cuts off the help that follows a usage line.
func help(text string) string {
	if at := strings.Index(text, "usage:"); at >= 0 {
		return text[:at+len("usage:")]
	}
	return strings.TrimSpace(text)
}

// differences runs the recorded call and says in what the fake answers otherwise.
func differences(t *testing.T, h *zfstest.Host, r recording) []string {
	t.Helper()
	result, err := h.Runner().Run(t.Context(), command.New(r.Argv[0], r.Argv[1:]...))
	code, exited := command.ExitCode(err)
	if err != nil && !exited {
		t.Fatalf("%s: %v", r.Name, err)
	}
	var out []string
	if code != *r.Exit {
		out = append(out, "exit code")
	}
	if got, want := help(strings.ToValidUTF8(string(result.Stderr), "\uFFFD")), help(r.Stderr); got != want && !strings.HasPrefix(want, "Warning:") {
		out = append(out, "stderr "+got+" instead of "+want)
	}
	if got, want := mask(r, string(result.Stdout)), mask(r, r.Stdout); got != want {
		out = append(out, "stdout "+got+" instead of "+want)
	}
	return out
}

func TestRecordings(t *testing.T) {
	h := zfstest.NewHost()
	h.Import("tank", "16223331268497365322", tankBytes, "/dev/nvme0n1p1")
	all := recordings(t)
	agree, differ := 0, 0
	left := map[string]int{}
	for _, r := range all {
		if change := before[r.Name]; change != nil {
			change(t, h)
		}
		if why := unmodelled(r); why != "" {
			left[why]++
			continue
		}
		found := differences(t, h, r)
		why, listed := exceptions[r.Name]
		switch {
		case len(found) == 0 && listed:
			t.Errorf("%s is listed as an exception (%s), and the fake agrees", r.Name, why)
		case len(found) == 0:
			agree++
		case listed:
			differ++
			t.Logf("exception %s: %s", r.Name, why)
		default:
			t.Errorf("%s: %q: %s", r.Name, r.Argv, strings.Join(found, "; "))
		}
	}
	for _, why := range slices.Sorted(maps.Keys(left)) {
		t.Logf("not modelled, %d: %s", left[why], why)
	}
	t.Logf("the fake agrees with %d of %d recordings; %d are listed exceptions, the rest is not modelled", agree, len(all), differ)
}
