package releasecmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/git/gittest"
)

// checkout is a repository of one module and the chart, ready for its first release.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	const changes = "# Changelog\n\n## [0.1.0] - 2026-12-01\n\n- Everything.\n"
	for name, content := range map[string]string{
		"go.work":                     "go 1.26.0\n\nuse ./modules/api\n",
		"versions.yaml":               "modules/api: v0.1.0\ncharts/distort: v0.1.0\n",
		"modules/api/go.mod":          "module github.com/distort-io/distort/modules/api\n\ngo 1.26.0\n",
		"modules/api/api.go":          "package api\n\nconst Size = 1\n",
		"modules/api/CHANGELOG.md":    changes,
		"charts/distort/CHANGELOG.md": changes,
		"charts/distort/Chart.yaml":   "version: 0.1.0\nappVersion: 0.1.0\n",
		"charts/distort/values.yaml":  "{}\n",
		".goreleaser.yaml":            "builds: []\n",
	} {
		gittest.Write(t, dir, name, content)
	}
	gittest.Init(t, dir)
	t.Chdir(dir)
	return dir
}

// run runs a command line in the current folder.
func run(args ...string) (string, error) {
	var out bytes.Buffer
	root := New()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

// TestNothingIsWrittenUnlessAsked: every command that changes files says what it
// would do, and leaves all as it is.
func TestNothingIsWrittenUnlessAsked(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
		file string
		want string
	}{
		"bump":  {[]string{"bump", "api", "minor"}, "  + modules/api: v0.2.0", "versions.yaml", "modules/api: v0.2.0"},
		"close": {[]string{"close", "api", "--date", "2026-12-24"}, "  + ## [0.1.0] - 2026-12-24", "modules/api/CHANGELOG.md", "## [0.1.0] - 2026-12-24"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t)
			gittest.Write(t, dir, "modules/api/CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n\n- Everything.\n")
			gittest.Commit(t, dir)
			out, err := run(c.args...)
			if err != nil || !strings.Contains(out, c.says) || !strings.Contains(out, dryRun) {
				t.Errorf("%q: %v\n%swant %q", c.args, err, out, c.says)
			}
			if status := gittest.Run(t, dir, "status", "--porcelain"); status != "" {
				t.Errorf("%q wrote without --write: %s", c.args, status)
			}
			if out, err = run(append(c.args, "--write")...); err != nil || strings.Contains(out, dryRun) {
				t.Errorf("%q --write: %v\n%s", c.args, err, out)
			}
			raw, err := os.ReadFile(filepath.Join(dir, c.file))
			if err != nil || !strings.Contains(string(raw), c.want) {
				t.Errorf("%s afterwards, %v:\n%swant %q", c.file, err, raw, c.want)
			}
		})
	}
}

func TestListTellsWhatChanged(t *testing.T) {
	dir := checkout(t)
	gittest.Run(t, dir, "tag", "modules/api/v0.1.0")
	gittest.Write(t, dir, "modules/api/new.go", "package api\n")
	out, err := run("list")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"modules/api v0.1.0 v0.1.0 yes", "charts/distort v0.1.0 none -"}
	for i, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("line %q, want %q", got, want[i])
		}
	}
}

func TestCommandsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"a module that is not there":    {[]string{"bump", "apis", "minor"}, `module "apis"`},
		"a part that is none":           {[]string{"bump", "api", "huge"}, `part "huge"`},
		"a date that is none":           {[]string{"close", "api", "--date", "tomorrow"}, `--date "tomorrow": want YYYY-MM-DD`},
		"what is released already":      {[]string{"close", "api"}, "is released already"},
		"a tag of nothing":              {[]string{"verify", "--tag", "modules/csi/v0.1.0"}, `tag "modules/csi/v0.1.0": versions.yaml has only`},
		"the API of a chart":            {[]string{"apidiff", "distort"}, "charts/distort has no Go API"},
		"a tag of what does not agree":  {[]string{"tag", "api", "--write"}, "a release has SBOMs"},
		"notes of a module of somebody": {[]string{"notes", "other"}, `module "other"`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t)
			if out, err := run(c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%q: %v, want %q\n%s", c.args, err, c.says, out)
			}
			if tags := gittest.Run(t, dir, "tag"); tags != "" {
				t.Errorf("%q made tags: %s", c.args, tags)
			}
		})
	}
}

func TestSourcesWithoutRepository(t *testing.T) {
	dir := checkout(t)
	if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"tag", "api"}, {"apidiff"}} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), "is no checkout of git") {
			t.Errorf("%q: %v", args, err)
		}
	}
}
