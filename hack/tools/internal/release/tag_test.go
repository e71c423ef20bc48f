package release

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/git/gittest"
)

// dated is a changelog of a first version that is about to be released.
const dated = "# Changelog\n\n## [0.1.0] - 2026-12-01\n\n- Everything.\n"

// checkout is a copy of the repository before its first release, with changelogs
// that are ready for it.
func checkout(t *testing.T) (string, git.Repo) {
	t.Helper()
	dir := atFirstVersion(t)
	trains, err := Trains(open(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, train := range trains {
		write(t, filepath.Join(dir, train.Dir, "CHANGELOG.md"), dated)
	}
	return dir, gittest.Init(t, dir)
}

func TestCheckTag(t *testing.T) {
	for name, c := range map[string]struct {
		train   string
		before  func(dir string)
		refused string
	}{
		"the first":           {"api", func(string) {}, ""},
		"a tag that exists":   {"api", func(dir string) { gittest.Run(t, dir, "tag", "modules/api/v0.1.0") }, "tag modules/api/v0.1.0 exists"},
		"nothing committed":   {"api", func(dir string) { gittest.Write(t, dir, "new", "") }, "this is in none:\n  ?? new"},
		"sibling not tagged":  {"agent", func(dir string) { gittest.Run(t, dir, "tag", "modules/api/v0.1.0") }, "modules/agent needs modules/nvmeof v0.1.0"},
		"images not tagged":   {"charts/distort", func(string) {}, "charts/distort needs modules/csi v0.1.0"},
		"siblings are tagged": {"csi", func(dir string) { gittest.Run(t, dir, "tag", "modules/api/v0.1.0") }, ""},
		"changelog is open": {"api", func(dir string) {
			gittest.Write(t, dir, "modules/api/CHANGELOG.md", strings.Replace(dated, "[0.1.0] - 2026-12-01", "[Unreleased] 0.1.0", 1))
			gittest.Commit(t, dir)
		}, `modules/api/CHANGELOG.md: the newest section is "## [Unreleased] 0.1.0"`},
		"versions disagree": {"api", func(dir string) {
			change(t, dir, chartDir+"/Chart.yaml", "version: 0.1.0", "version: 0.2.0")
			gittest.Commit(t, dir)
		}, `Chart.yaml: version is "0.2.0"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, g := checkout(t)
			c.before(dir)
			tree := open(t, dir)
			wantError(t, CheckTag(t.Context(), tree, g, find(t, tree, c.train)), c.refused)
		})
	}
}

// TestVerifyKnowsTheTags: what is tagged is the past of what versions.yaml says.
func TestVerifyKnowsTheTags(t *testing.T) {
	for name, c := range map[string]struct {
		tag     string
		change  bool
		refused string
	}{
		"never tagged":            {"", true, ""},
		"tagged as it is":         {"modules/api/v0.1.0", false, ""},
		"changed after its tag":   {"modules/api/v0.1.0", true, "modules/api is v0.1.0, and the folder changed since"},
		"bumped after its tag":    {"modules/api/v0.0.9", true, ""},
		"behind its tag":          {"modules/api/v0.2.0", false, "modules/api is v0.1.0, and modules/api/v0.2.0 is tagged"},
		"tag of another's folder": {"modules/csi/v0.1.0", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, g := checkout(t)
			if c.tag != "" {
				gittest.Run(t, dir, "tag", c.tag)
			}
			if c.change {
				gittest.Write(t, dir, "modules/api/new.go", "package api\n")
				gittest.Commit(t, dir)
			}
			wantError(t, Verify(t.Context(), open(t, dir), g), c.refused)
		})
	}
}

// TestVerifyListsEveryFailure: one run names all that is to be corrected.
func TestVerifyListsEveryFailure(t *testing.T) {
	dir, g := checkout(t)
	change(t, dir, chartDir+"/Chart.yaml", "version: 0.1.0", "version: 0.2.0")
	change(t, dir, "modules/csi/go.mod", "modules/api v0.1.0", "modules/api v0.0.9")
	change(t, dir, "go.work", "modules/api v0.1.0", "modules/api v0.0.8")
	gittest.Run(t, dir, "tag", "modules/csi/v0.3.0")
	err := Verify(t.Context(), open(t, dir), g)
	for _, says := range []string{`version is "0.2.0"`, "modules/csi/go.mod: requires", "go.work: replaces", "modules/csi/v0.3.0 is tagged"} {
		wantError(t, err, says)
	}
}

func TestStates(t *testing.T) {
	dir, g := checkout(t)
	gittest.Run(t, dir, "tag", "modules/api/v0.1.0")
	gittest.Run(t, dir, "tag", "modules/csi/v0.1.0")
	gittest.Write(t, dir, "modules/csi/new.go", "package csi\n")
	states, err := States(t.Context(), open(t, dir), g)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]State{}
	var order []string
	for _, s := range states {
		got[s.Dir] = s
		order = append(order, s.Dir)
	}
	if want := "modules/api modules/nvmeof modules/agent modules/csi modules/manager charts/distort"; strings.Join(order, " ") != want {
		t.Errorf("order %q, want %q: what is needed comes first", order, want)
	}
	for dir, want := range map[string]struct {
		last    string
		changed bool
	}{"modules/api": {"v0.1.0", false}, "modules/csi": {"v0.1.0", true}, "modules/nvmeof": {"", true}} {
		if s := got[dir]; s.Last != want.last || s.Changed != want.changed {
			t.Errorf("%s: last %q, changed %v, want %v", dir, s.Last, s.Changed, want)
		}
	}
}

func TestFind(t *testing.T) {
	tree := open(t, root)
	for name, want := range map[string]string{"api": "modules/api", "modules/api": "modules/api", "distort": chartDir, chartDir: chartDir} {
		if got, err := Find(tree, name); err != nil || got.Dir != want {
			t.Errorf("Find(%q) = %v, %v, want %s", name, got, err, want)
		}
	}
	_, err := Find(tree, "apis")
	wantError(t, err, `module "apis": versions.yaml has only`)
}
