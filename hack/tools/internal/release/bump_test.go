package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/boundaries"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func TestNextVersion(t *testing.T) {
	for name, c := range map[string]struct{ version, part, want, refused string }{
		"patch":                {"v0.1.9", "patch", "v0.1.10", ""},
		"minor resets patch":   {"v0.1.9", "minor", "v0.2.0", ""},
		"major resets both":    {"v0.1.9", "major", "v1.0.0", ""},
		"no such part":         {"v0.1.9", "tiny", "", `part "tiny": want one of`},
		"no version":           {"0.1.9", "patch", "", `version "0.1.9": want vX.Y.Z`},
		"two numbers":          {"v0.1", "patch", "", `version "v0.1": want vX.Y.Z`},
		"candidate of release": {"v0.1.0-rc.1", "patch", "", `version "v0.1.0-rc.1": want vX.Y.Z`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := next(c.version, c.part)
			if got != c.want {
				t.Errorf("next = %q, want %q", got, c.want)
			}
			wantError(t, err, c.refused)
		})
	}
}

// TestBumpChangesEveryPlace: each place that names the version follows, and
// afterwards all of them agree.
func TestBumpChangesEveryPlace(t *testing.T) {
	for name, c := range map[string]struct {
		train, part string
		want        []string
	}{
		"api": {"api", "minor", []string{
			"versions.yaml: modules/api: v0.2.0",
			"e2e/go.mod: github.com/distort-io/distort/modules/api v0.2.0",
			"modules/agent/go.mod: github.com/distort-io/distort/modules/api v0.2.0",
			"modules/csi/go.mod: github.com/distort-io/distort/modules/api v0.2.0",
			"modules/manager/go.mod: github.com/distort-io/distort/modules/api v0.2.0",
			"go.work: github.com/distort-io/distort/modules/api v0.2.0 => ./modules/api",
			"modules/api/CHANGELOG.md: ## [Unreleased] 0.2.0",
		}},
		"nvmeof": {"modules/nvmeof", "patch", []string{
			"versions.yaml: modules/nvmeof: v0.1.1",
			"modules/agent/go.mod: github.com/distort-io/distort/modules/nvmeof v0.1.1",
			"go.work: github.com/distort-io/distort/modules/nvmeof v0.1.1 => ./modules/nvmeof",
			"modules/nvmeof/CHANGELOG.md: ## [Unreleased] 0.1.1",
		}},
		"manager": {"manager", "major", []string{
			"versions.yaml: modules/manager: v1.0.0",
			`charts/distort/values.yaml: manager: {repository: ghcr.io/distort-io/distort-manager, tag: v1.0.0, digest: ""}`,
			"charts/distort/Chart.yaml: appVersion: 1.0.0",
			"modules/manager/CHANGELOG.md: ## [Unreleased] 1.0.0",
		}},
		"csi": {"csi", "patch", []string{
			"versions.yaml: modules/csi: v0.1.1",
			`charts/distort/values.yaml: csi: {repository: ghcr.io/distort-io/distort-csi, tag: v0.1.1, digest: ""}`,
			"modules/csi/CHANGELOG.md: ## [Unreleased] 0.1.1",
		}},
		"chart": {"charts/distort", "patch", []string{
			"versions.yaml: charts/distort: v0.1.1",
			"charts/distort/Chart.yaml: version: 0.1.1",
			"charts/distort/CHANGELOG.md: ## [Unreleased] 0.1.1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tree := open(t, atFirstVersion(t))
			edits, err := Bump(tree, find(t, tree, c.train), c.part)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range edits.List {
				got = append(got, e.File+": "+e.New)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("changes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if again := open(t, tree.Root); find(t, again, c.train) != find(t, tree, c.train) {
				t.Error("versions.yaml changed before anything was to be written")
			}
			if err := edits.Write(); err != nil {
				t.Fatal(err)
			}
			after := open(t, tree.Root)
			if err := Check(after); err != nil {
				t.Errorf("afterwards Check says %v", err)
			}
			if err := boundaries.Check(after); err != nil {
				t.Errorf("afterwards boundaries.Check says %v", err)
			}
		})
	}
}

func TestBumpRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, from, to, part, says string }{
		"a place that disagrees":   {"e2e/go.mod", "modules/api v0.1.0", "modules/api v0.0.9", "minor", "e2e/go.mod: 0 places say"},
		"a version named twice":    {"versions.yaml", "modules/api: v0.1.0", "# modules/api: v0.1.0\nmodules/api: v0.1.0", "minor", "versions.yaml: 2 places say"},
		"a changelog without head": {"modules/api/CHANGELOG.md", "## [", "### [", "minor", "modules/api/CHANGELOG.md: it has no section"},
		"a path that would change": {"versions.yaml", "modules/api: v0.1.0", "modules/api: v1.4.0", "major", "v2.0.0 changes the module's path"},
		"what is no part":          {"versions.yaml", "#", "#", "big", `modules/api: part "big"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := atFirstVersion(t)
			change(t, dir, c.file, c.from, c.to)
			tree := open(t, dir)
			_, err := Bump(tree, find(t, tree, "api"), c.part)
			wantError(t, err, c.says)
		})
	}
}

func TestPrintIsADiff(t *testing.T) {
	e := Edits{List: []Edit{{"a", "1", "2"}, {"a", "", "3"}, {"b", "x", "y"}}}
	var out strings.Builder
	e.Print(&out)
	if want := "a\n  - 1\n  + 2\n  + 3\nb\n  - x\n  + y\n"; out.String() != want {
		t.Errorf("printed\n%swant\n%s", &out, want)
	}
}

// atFirstVersion is a copy of the repository as it was before its first release,
// so that these tests outlive it.
func atFirstVersion(t *testing.T) string {
	t.Helper()
	dir := copied(t)
	tree := open(t, dir)
	trains, err := Trains(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, train := range trains {
		first := strings.NewReplacer(
			train.Dir+": "+train.Version, train.Dir+": v0.1.0",
			repo.ModulePrefix+train.Dir+" "+train.Version, repo.ModulePrefix+train.Dir+" v0.1.0",
			"distort-"+filepath.Base(train.Dir)+", tag: "+train.Version, "distort-"+filepath.Base(train.Dir)+", tag: v0.1.0",
		)
		for _, name := range []string{versionsFile, "go.work", "e2e/go.mod", "modules/agent/go.mod", "modules/csi/go.mod", "modules/manager/go.mod", chartDir + "/values.yaml"} {
			file := filepath.Join(dir, name)
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, first.Replace(string(raw)))
		}
		write(t, filepath.Join(dir, train.Dir, "CHANGELOG.md"), "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Everything.\n")
	}
	write(t, filepath.Join(dir, chartDir, "Chart.yaml"), "version: 0.1.0\nappVersion: 0.1.0\n")
	return dir
}

// change changes words of a file of a copy.
func change(t *testing.T, dir, name, from, to string) {
	t.Helper()
	file := filepath.Join(dir, name)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), from) {
		t.Fatalf("%s has no %q", name, from)
	}
	write(t, file, strings.Replace(string(raw), from, to, 1))
}

func open(t *testing.T, dir string) *repo.Tree {
	t.Helper()
	tree, err := repo.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func find(t *testing.T, tree *repo.Tree, name string) Train {
	t.Helper()
	train, err := Find(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	return train
}

// wantError compares an error with words of it; none is wanted when they are empty.
func wantError(t *testing.T, err error, says string) {
	t.Helper()
	if (err == nil) != (says == "") || (err != nil && !strings.Contains(err.Error(), says)) {
		t.Errorf("error %v, want %q", err, says)
	}
}
