package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// root is this repository.
const root = "../../../.."

// TestRepositoryAgrees: what is committed is releasable.
func TestRepositoryAgrees(t *testing.T) {
	tree, err := repo.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(tree); err != nil {
		t.Error(err)
	}
}

// TestCheckNames changes one thing in a copy of what Check reads.
func TestCheckNames(t *testing.T) {
	for name, c := range map[string]struct{ file, from, to, says string }{
		"version of the chart":     {"charts/distort/Chart.yaml", "version: 0.1.0\n", "version: 0.2.0\n", `Chart.yaml: version is "0.2.0"`},
		"version of the programs":  {"charts/distort/Chart.yaml", "appVersion: 0.1.0", "appVersion: 0.2.0", `appVersion is "0.2.0"`},
		"tag of an image":          {"charts/distort/values.yaml", "distort-csi, tag: v0.1.0", "distort-csi, tag: v0.2.0", `images.csi.tag is "v0.2.0"`},
		"name of an image":         {"charts/distort/values.yaml", "distort-io/distort-agent,", "distort-io/agent,", "nothing makes ghcr.io/distort-io/agent"},
		"version of a module":      {"versions.yaml", "modules/csi: v0.1.0", "modules/csi: v0.2.0", `images.csi.tag is "v0.1.0"`},
		"changelog of the chart":   {"charts/distort/CHANGELOG.md", "## [Unreleased] 0.1.0", "## [0.2.0] - 2026-12-01", "charts/distort/CHANGELOG.md"},
		"replacement of go.work":   {"go.work", "modules/nvmeof v0.1.0", "modules/nvmeof v0.0.9", "go.work: replaces github.com/distort-io/distort/modules/nvmeof v0.0.9"},
		"requirement of tests":     {"e2e/go.mod", "modules/api v0.1.0", "modules/api v0.0.9", "e2e/go.mod: requires github.com/distort-io/distort/modules/api v0.0.9"},
		"what is no version":       {"versions.yaml", "modules/csi: v0.1.0", "modules/csi: v0.1", `modules/csi is "v0.1", want vX.Y.Z`},
		"coming version":           {"modules/api/CHANGELOG.md", "[Unreleased] 0.1.0", "[Unreleased] 0.3.0", "modules/api/CHANGELOG.md"},
		"heading of a changelog":   {"modules/agent/CHANGELOG.md", "## [Unreleased]", "## Next", `"## Next" is neither`},
		"program without build":    {".goreleaser.yaml", "main: ./cmd/distort-csi", "main: ./cmd/other", "no build of modules/csi/cmd/distort-csi"},
		"build without program":    {".goreleaser.yaml", "main: ./cmd/distort-csi", "main: ./cmd/other", "modules/csi/cmd/other, which is no program"},
		"build in another's train": {".goreleaser.yaml", `skip: '{{ ne .Env.MODULE "agent" }}'`, `skip: '{{ ne .Env.MODULE "csi" }}'`, "build distort-agent: skip is"},
		"image in another's train": {".goreleaser.yaml", `disable: '{{ ne .Env.MODULE "agent" }}'`, "disable: 'false'", "image distort-agent: disable is"},
		"tag that moves":           {".goreleaser.yaml", `tags: ["v{{ .Version }}"]`, `tags: ["v{{ .Version }}", latest]`, "want its exact version alone"},
		"image without SBOM":       {".goreleaser.yaml", "sbom: spdx", "sbom: none", "and an SBOM"},
		"release without SBOMs":    {".goreleaser.yaml", "sboms:\n  - artifacts: archive", "sboms: []", "a release has SBOMs"},
		"workspace in a build":     {".goreleaser.yaml", "GOWORK=off", "GOWORK=on", "without GOWORK=off"},
		"one architecture":         {".goreleaser.yaml", "goarch: [amd64, arm64]", "goarch: [amd64]", "want linux/[amd64 arm64]"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t)
			file := filepath.Join(dir, c.file)
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(string(raw), c.from, c.to, 1)
			if changed == string(raw) {
				t.Fatalf("%s has no %q", c.file, c.from)
			}
			write(t, file, changed)
			tree, err := repo.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(tree); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Check says %v, want %q", err, c.says)
			}
		})
	}
}

// copied copies what Check reads of this repository.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := []string{"go.work", "e2e/go.mod", "hack/tools/go.mod", versionsFile, configFile, chartDir + "/Chart.yaml", chartDir + "/values.yaml"}
	for _, pattern := range []string{"modules/*/go.mod", "modules/*/CHANGELOG.md", "modules/*/cmd/*/main.go", chartDir + "/CHANGELOG.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, f := range found {
			name, err := filepath.Rel(root, f)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, name)
		}
	}
	for _, name := range files {
		raw, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(raw))
	}
	return dir
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
