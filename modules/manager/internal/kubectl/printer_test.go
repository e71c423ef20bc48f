package kubectl

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/manager/internal/explain"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func brokenVerdict() explain.Verdict {
	since := noon.Add(-192 * time.Second)
	f := explain.Finding{
		Boundary: explain.Access, State: explain.Broken, Reason: "GrantFailed", Message: "the target refused", Since: &since,
		Owner: &explain.Owner{Component: explain.Agent, Node: "storage-a", Pod: "distort-agent-x"}, Next: "kubectl logs x",
		Evidence: []explain.Evidence{
			{Object: "NVMeVolumeAttachment d/att-1", Condition: "AccessReady=False", Reason: "GrantFailed", Message: "device busy"},
			{Object: "Node storage-a", Message: "gone"},
		},
	}
	return explain.Verdict{
		Subject: explain.Subject{Kind: "pvc", Namespace: "demo", Name: "data"}, Finding: f,
		Steps: []explain.Finding{
			{Boundary: explain.Claim, State: explain.OK, Message: "bound"}, {Boundary: explain.Placement, State: explain.Unknown, Message: "NVMePartition is not readable"},
			f, {Boundary: explain.Mount, State: explain.NotReached},
		},
		Unreadable: []explain.Unreadable{{Kind: "NVMePartition", Name: "p", Error: "forbidden"}},
	}
}

func TestVerdictText(t *testing.T) {
	var out bytes.Buffer
	newPrinter(&out).verdict(noon, brokenVerdict(), false)
	want := `pvc demo/data: BROKEN at access

  pvc        ok            bound
  placement  not readable  NVMePartition is not readable
  access     BROKEN        the target refused
  mount      not reached

  since         2026-11-30T11:56:48Z, 3m12s ago
  owner         agent on node storage-a (pod distort-agent-x)
  evidence      NVMeVolumeAttachment d/att-1: AccessReady=False, GrantFailed: device busy
                Node storage-a: gone
  next          kubectl logs x
  not readable  NVMePartition p: forbidden
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestVerdictLines(t *testing.T) {
	waiting, well := brokenVerdict(), brokenVerdict()
	waiting.State, waiting.Boundary, waiting.Message = explain.Waiting, explain.Export, "not exported yet"
	well.State = explain.OK
	for name, tc := range map[string]struct {
		verdicts []explain.Verdict
		want     string
	}{
		"some are not well": {
			[]explain.Verdict{brokenVerdict(), well, waiting},
			"pvc demo/data: access: the target refused (since 3m12s)\npvc demo/data: export: in progress: not exported yet (since 3m12s)\n",
		},
		"all are well": {[]explain.Verdict{well, well}, "all 2 volumes are well\n"},
		"none":         {nil, "all 0 volumes are well\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			newPrinter(&out).lines(noon, tc.verdicts)
			if out.String() != tc.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), tc.want)
			}
		})
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if newPrinter(file).colour {
		t.Error("a file gets colours")
	}
	var out bytes.Buffer
	p := &printer{out: &out, colour: true}
	p.table("", [][]cell{{{"ok", good}, plain("a")}, {{"BROKEN", bad}, plain("b")}})
	// Colours take no width.
	if want := "\x1b[32mok\x1b[0m      a\n\x1b[31;1mBROKEN\x1b[0m  b\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0", 1023: "1023", 4 << 20: "4Mi", 1 << 30: "1Gi", 8489271296: "7.9Gi", 3 << 40: "3Ti"} {
		if got := size(bytes); got != want {
			t.Errorf("size(%d) = %q, want %q", bytes, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for _, tc := range []struct {
		part, whole int64
		want        string
	}{
		{0, 0, ""},
		{0, 10, "░░░░░░░░░░░░░░░░░░░░   0%"},
		{1, 1000, "█░░░░░░░░░░░░░░░░░░░   0%"},
		{5, 10, "██████████░░░░░░░░░░  50%"},
		{999, 1000, "███████████████████░ 100%"},
		{10, 10, "████████████████████ 100%"},
		{20, 10, "████████████████████ 100%"},
	} {
		if got := bar(tc.part, tc.whole); got != tc.want {
			t.Errorf("bar(%d, %d) = %q, want %q", tc.part, tc.whole, got, tc.want)
		}
	}
}
