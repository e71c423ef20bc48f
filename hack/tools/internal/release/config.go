// Package release holds what is said about releases in several places together:
// .goreleaser.yaml, versions.yaml, the chart, the changelogs and the programs
// that there are. It also builds the programs as a release would.
package release

import (
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

const (
	configFile   = ".goreleaser.yaml"
	versionsFile = "versions.yaml"
	chartDir     = "charts/distort"
	// appVersionDir is the module whose version is the chart's appVersion.
	appVersionDir = "modules/manager"
)

// config is what this package reads of .goreleaser.yaml.
type config struct {
	Builds    []build        `json:"builds"`
	Kos       []image        `json:"kos"`
	DockersV2 []image        `json:"dockers_v2"`
	SBOMs     []any          `json:"sboms"`
	Checksum  map[string]any `json:"checksum"`
}

type build struct {
	ID      string   `json:"id"`
	Dir     string   `json:"dir"`
	Main    string   `json:"main"`
	Binary  string   `json:"binary"`
	Env     []string `json:"env"`
	Flags   []string `json:"flags"`
	Ldflags []string `json:"ldflags"`
	GOOS    []string `json:"goos"`
	GOARCH  []string `json:"goarch"`
	Skip    string   `json:"skip"`
}

// image is an entry of kos or of dockers_v2.
type image struct {
	ID           string   `json:"id"`
	Build        string   `json:"build"`
	IDs          []string `json:"ids"`
	Repositories []string `json:"repositories"`
	Images       []string `json:"images"`
	Tags         []string `json:"tags"`
	Platforms    []string `json:"platforms"`
	SBOM         string   `json:"sbom"`
	Disable      string   `json:"disable"`
}

// chart is what this package reads of Chart.yaml and values.yaml.
type chart struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
	Images     struct {
		Manager chartImage `json:"manager"`
		Agent   chartImage `json:"agent"`
		CSI     chartImage `json:"csi"`
	} `json:"images"`
}

type chartImage struct {
	Repository string `json:"repository"`
	Tag        string `json:"tag"`
}

// images are those of our programs, by module.
func (c chart) images() map[string]chartImage {
	return map[string]chartImage{"manager": c.Images.Manager, "agent": c.Images.Agent, "csi": c.Images.CSI}
}

// facts are all sides of the comparison.
type facts struct {
	tree     *repo.Tree
	config   config
	chart    chart
	versions map[string]string
}

func read(tree *repo.Tree) (facts, error) {
	f := facts{tree: tree}
	for _, file := range []struct {
		name string
		into any
	}{
		{configFile, &f.config}, {versionsFile, &f.versions},
		{chartDir + "/Chart.yaml", &f.chart}, {chartDir + "/values.yaml", &f.chart},
	} {
		raw, err := os.ReadFile(filepath.Join(tree.Root, filepath.FromSlash(file.name)))
		if err != nil {
			return facts{}, err
		}
		if err := yaml.Unmarshal(raw, file.into); err != nil {
			return facts{}, fmt.Errorf("%s: %w", file.name, err)
		}
	}
	return f, nil
}
