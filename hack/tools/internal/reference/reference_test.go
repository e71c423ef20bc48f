package reference

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"
	k8s "sigs.k8s.io/yaml"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func parse(t *testing.T, source string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestConstants(t *testing.T) {
	got := constants(parse(t, `
// Of the group.
const (
	// KeyA is the first: with | and
	// two lines.
	KeyA = "a"
	KeyB = "b" // KeyB: the second.
	Number = 1
)`))
	want := []constant{{"KeyA", "a", "the first: with | and two lines.", "Of the group.\n"}, {"KeyB", "b", "the second.", "Of the group.\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := cell(got[0].doc); c != `the first: with \| and two lines.` {
		t.Errorf("cell %q", c)
	}
}

func TestMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"a counter": {`prometheus.NewCounter(prometheus.CounterOpts{Name: "distort_x_total", Help: "X."})`, []string{"`distort_x_total`", "counter", "", "X."}},
		"a histogram by labels": {`prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "distort_y", Help: "Y.", Buckets: b}, []string{"a", "b"})`,
			[]string{"`distort_y`", "histogram", "a, b", "Y."}},
		"a description":   {`prometheus.NewDesc("distort_z", "Z.", []string{"node"}, nil)`, []string{"`distort_z`", "gauge", "node", "Z."}},
		"somebody else's": {`prometheus.NewDesc("go_goroutines", "G.", nil, nil)`, nil},
		"another call":    {`errors.New("distort_x")`, nil},
	} {
		call := parse(t, "var v = "+c.source).Decls[0].(*ast.GenDecl).Specs[0].(*ast.ValueSpec).Values[0].(*ast.CallExpr)
		if got, _ := metricOf(call); name != "another call" && !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestFieldsOfASchema(t *testing.T) {
	var s schema
	err := k8s.Unmarshal([]byte(`
type: object
required: [size]
properties:
  size: {type: integer, format: int64, minimum: 1, description: In bytes.}
  mode: {type: string, enum: [a, b], default: a, x-kubernetes-validations: [{rule: "true", message: it never changes}]}
  parts: {type: array, maxItems: 3, items: {type: object, properties: {name: {type: string, pattern: "^x$", maxLength: 5}}}}
`), &s)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"`spec.mode`", "string, one of `a` `b`, default `\"a\"`", " Rule: it never changes."},
		{"`spec.parts`", "list of object, items at most 3", ""},
		{"`spec.parts[].name`", "string, matches `^x$`, length at most 5", ""},
		{"`spec.size`", "integer, int64, at least 1, required", "In bytes."},
	}
	got := s.fields("spec")
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("%q, want %q", got[i], want[i])
		}
	}
}

func TestValues(t *testing.T) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte("# Of it all.\na:\n  # The first.\n  b: 1\n  c: {d: x, e: []} # inline\nf: \"\"\n"), &document); err != nil {
		t.Fatal(err)
	}
	rows, err := values("", document.Content[0])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, cell(strings.Join(r, " ")))
	}
	want := []string{"`a` Of it all.", "`a.b` `1` The first.", "`a.c` `{d: x, e: []}` inline", "`f` `\"\"`"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestPagesOfTheRepository: each page has what its readers look for, so that a source
// which is written in another way one day does not empty it.
func TestPagesOfTheRepository(t *testing.T) {
	tree, err := repo.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, has := range map[string][]string{
		"kinds.md":        {"## NVMePartition", "`spec.size`", "## VolumeImport"},
		"conditions.md":   {"## NVMeVolumeAttachment", "**AccessReady**", "`StorageNodeSilent`"},
		"parameters.md":   {"`target-backend`", "`ctrl-loss-tmo`", "`allow-multi-writer`"},
		"metrics.md":      {"`distort_agent_export_repairs_total`", "`distort_csi_rpc_duration_seconds`", "method, code"},
		"chart-values.md": {"`csiNode.maxVolumes`", "`spdk.mode`", "`128`"},
	} {
		i := slices.IndexFunc(pages, func(p page) bool { return p.name == name })
		if i < 0 {
			t.Errorf("no page %s", name)
			continue
		}
		var b bytes.Buffer
		if err := pages[i].write(tree, &b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, text := range has {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%s does not have %q", name, text)
			}
		}
		for n, line := range strings.Split(b.String(), "\n") {
			if name == "parameters.md" && strings.HasSuffix(line, "|  |") {
				t.Errorf("%s, line %d: %s says nothing; its constant needs a comment", name, n+1, line)
			}
		}
		if _, err := os.Stat(filepath.Join(tree.Root, filepath.FromSlash(Dir), name)); err != nil {
			t.Error(err)
		}
	}
}
