package apigate

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/exp/apidiff"

	"github.com/distort-io/distort/hack/tools/internal/git/gittest"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		was, is    string
		compatible bool
		refused    string
	}{
		"v0, break in a patch":        {"v0.1.0", "v0.1.1", false, "bump its minor number"},
		"v0, break without a bump":    {"v0.1.0", "v0.1.0", false, "bump its minor number"},
		"v0, break in a minor":        {"v0.1.0", "v0.2.0", false, ""},
		"v0, break to v1":             {"v0.9.0", "v1.0.0", false, ""},
		"v1, break in a minor":        {"v1.1.0", "v1.2.0", false, "bump its major number"},
		"v1, break in a major":        {"v1.1.0", "v2.0.0", false, ""},
		"an addition needs none":      {"v1.1.0", "v1.1.1", true, ""},
		"back is no bump":             {"v0.2.0", "v0.1.0", false, "bump its minor number"},
		"numbers, and not letters":    {"v0.9.0", "v0.10.0", false, ""},
		"v0.10 to v0.9 is not a bump": {"v0.10.0", "v0.9.0", false, "bump its minor number"},
	} {
		t.Run(name, func(t *testing.T) {
			report := apidiff.Report{Changes: []apidiff.Change{{Message: "Size: removed", Compatible: c.compatible}}}
			err := judge("modules/api", c.was, c.is, report)
			if (err == nil) != (c.refused == "") || (err != nil && !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("judge says %v, want %q", err, c.refused)
			}
			if err != nil && !strings.Contains(err.Error(), "- Size: removed") {
				t.Errorf("judge does not name the break: %v", err)
			}
		})
	}
}

// TestGate takes a small module through a change after its tag.
func TestGate(t *testing.T) {
	const before = "package api\n\nfunc Size() int { return 0 }\n"
	for name, c := range map[string]struct {
		file, content, version string
		says, refused          string
	}{
		"nothing":                    {"api.go", before, "v0.1.0", "changes of the API: 0", ""},
		"an addition":                {"api.go", before + "\nfunc More() {}\n", "v0.1.1", "Compatible changes:\n- More: added", ""},
		"a break in a patch":         {"api.go", "package api\n\nfunc Size() int64 { return 0 }\n", "v0.1.1", "Incompatible changes:", "Size: changed from func() int to func() int64"},
		"a break that is told of":    {"api.go", "package api\n", "v0.2.0", "Incompatible changes:", ""},
		"what nobody can import":     {"internal/x/x.go", "package x\n\nfunc Other() {}\n", "v0.1.1", "changes of the API: 0", ""},
		"what does not even compile": {"api.go", "package api\n\nvar x = nothing\n", "v0.2.0", "", "undefined: nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			gittest.Write(t, dir, "go.work", "go 1.26.0\n\nuse ./modules/api\n")
			gittest.Write(t, dir, "versions.yaml", "modules/api: v0.1.0\n")
			gittest.Write(t, dir, "modules/api/go.mod", "module "+repo.ModulePrefix+"modules/api\n\ngo 1.26.0\n")
			gittest.Write(t, dir, "modules/api/api.go", before)
			gittest.Write(t, dir, "modules/api/internal/x/x.go", "package x\n\nfunc One() {}\n")
			gittest.Write(t, dir, "modules/api/cmd/x/main.go", "package main\n\nfunc main() {}\n")
			g := gittest.Init(t, dir)
			gittest.Run(t, dir, "tag", "modules/api/v0.1.0")
			gittest.Write(t, dir, "modules/api/"+c.file, c.content)
			gittest.Write(t, dir, "versions.yaml", "modules/api: "+c.version+"\n")
			out, err := check(t, dir, Gate{Git: g})
			if (err == nil) != (c.refused == "") || (err != nil && !strings.Contains(err.Error(), c.refused)) {
				t.Errorf("Check says %v, want %q", err, c.refused)
			}
			if !strings.Contains(out, c.says) {
				t.Errorf("Check printed\n%swant %q", out, c.says)
			}
		})
	}
}

// TestGateBeforeTheFirstTag: without a tag nothing was promised, with a revision
// the versions of then and now are compared all the same.
func TestGateBeforeTheFirstTag(t *testing.T) {
	dir := t.TempDir()
	gittest.Write(t, dir, "go.work", "go 1.26.0\n\nuse ./modules/api\n")
	gittest.Write(t, dir, "versions.yaml", "modules/api: v0.1.0\n")
	gittest.Write(t, dir, "modules/api/go.mod", "module "+repo.ModulePrefix+"modules/api\n\ngo 1.26.0\n")
	gittest.Write(t, dir, "modules/api/api.go", "package api\n\nconst Size = 1\n")
	g := gittest.Init(t, dir)
	gittest.Write(t, dir, "modules/api/api.go", "package api\n")
	if out, err := check(t, dir, Gate{Git: g}); err != nil || !strings.Contains(out, "no tag yet") {
		t.Errorf("without tag: %v, %q", err, out)
	}
	if _, err := check(t, dir, Gate{Git: g, Base: "HEAD"}); err == nil || !strings.Contains(err.Error(), "Size: removed") {
		t.Errorf("since HEAD: %v", err)
	}
	if _, err := check(t, dir, Gate{Git: g, Base: "nowhere"}); err == nil {
		t.Error("a revision that is not there is compared with")
	}
}

func check(t *testing.T, dir string, g Gate) (string, error) {
	t.Helper()
	tree, err := repo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	g.Tree, g.Out = tree, &out
	err = g.Check(t.Context(), tree.Modules[0])
	return out.String(), err
}
