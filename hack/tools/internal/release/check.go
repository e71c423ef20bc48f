package release

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// registry is where images go unless somebody says otherwise.
const registry = "ghcr.io/distort-io/"

// architectures are those that every program is released for.
var architectures = []string{"amd64", "arm64"}

// Check reports everything on which the places that speak of releases disagree.
func Check(tree *repo.Tree) error {
	f, err := read(tree)
	if err != nil {
		return err
	}
	var problems []error
	say := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if err := f.checkBuilds(say); err != nil {
		return err
	}
	f.checkImages(say)
	f.checkChart(say)
	f.checkVersions(say)
	if err := f.checkWorkspace(say); err != nil {
		return err
	}
	for _, dir := range f.trains() {
		if err := f.checkChangelog(dir, say); err != nil {
			return err
		}
	}
	if len(f.config.SBOMs) == 0 || f.config.Checksum["algorithm"] != "sha256" {
		say("%s: a release has SBOMs and SHA-256 checksums", configFile)
	}
	return errors.Join(problems...)
}

// trains are the folders that are released by themselves.
func (f facts) trains() []string {
	dirs := []string{chartDir}
	for _, m := range f.tree.Modules {
		dirs = append(dirs, m.Dir)
	}
	return dirs
}

// checkBuilds compares the builds with the programs in the modules.
func (f facts) checkBuilds(say func(string, ...any)) error {
	left := map[string]build{}
	for _, b := range f.config.Builds {
		left[b.Dir+"/"+strings.TrimPrefix(b.Main, "./")] = b
	}
	for _, m := range f.tree.Modules {
		mains, err := filepath.Glob(filepath.Join(f.tree.Root, m.Dir, "cmd", "*", "main.go"))
		if err != nil {
			return err
		}
		for _, main := range mains {
			name := filepath.Base(filepath.Dir(main))
			key := m.Dir + "/cmd/" + name
			b, ok := left[key]
			if !ok {
				say("%s: no build of %s", configFile, key)
				continue
			}
			delete(left, key)
			b.check(name, path.Base(m.Dir), say)
		}
	}
	for key, b := range left {
		say("%s: build %s is of %s, which is no program of a published module", configFile, b.ID, key)
	}
	return nil
}

func (b build) check(name, module string, say func(string, ...any)) {
	if b.ID != name || b.Binary != name {
		say("%s: build %s with binary %s: both are called %s, as the folder", configFile, b.ID, b.Binary, name)
	}
	if b.Skip != other(module) {
		say("%s: build %s: skip is %q, want %q", configFile, b.ID, b.Skip, other(module))
	}
	if !slices.Equal(b.GOOS, []string{"linux"}) || !slices.Equal(b.GOARCH, architectures) {
		say("%s: build %s is for %v/%v, want linux/%v", configFile, b.ID, b.GOOS, b.GOARCH, architectures)
	}
	for _, env := range []string{"CGO_ENABLED=0", "GOWORK=off"} {
		if !slices.Contains(b.Env, env) {
			say("%s: build %s is without %s", configFile, b.ID, env)
		}
	}
	if !slices.Contains(b.Flags, "-trimpath") {
		say("%s: build %s is without -trimpath: its bytes would depend on where it was built", configFile, b.ID)
	}
}

// other is the template that is true while another module is released.
func other(module string) string { return fmt.Sprintf("{{ ne .Env.MODULE %q }}", module) }

// checkImages compares the images with those of the chart.
func (f facts) checkImages(say func(string, ...any)) {
	made := map[string]image{}
	for _, i := range append(slices.Clone(f.config.Kos), f.config.DockersV2...) {
		for _, name := range append(slices.Clone(i.Repositories), i.Images...) {
			made[strings.Replace(name, "{{ .Env.REGISTRY }}/", registry, 1)] = i
		}
	}
	for module, used := range f.chart.images() {
		if want := f.versions["modules/"+module]; used.Tag != want {
			say("%s/values.yaml: images.%s.tag is %q, %s says %q", chartDir, module, used.Tag, versionsFile, want)
		}
		i, ok := made[used.Repository]
		if !ok {
			say("%s: nothing makes %s, which the chart uses", configFile, used.Repository)
			continue
		}
		delete(made, used.Repository)
		program := "distort-" + module
		if i.ID != program || (i.Build != program && !slices.Equal(i.IDs, []string{program})) {
			say("%s: image %s is not made of %s", configFile, used.Repository, program)
		}
		if i.Disable != other(module) {
			say("%s: image %s: disable is %q, want %q", configFile, i.ID, i.Disable, other(module))
		}
		if !slices.Equal(i.Tags, []string{"v{{ .Version }}"}) {
			say("%s: image %s has tags %v, want its exact version alone", configFile, i.ID, i.Tags)
		}
		if !slices.Equal(i.Platforms, []string{"linux/amd64", "linux/arm64"}) || i.SBOM == "" || i.SBOM == "none" {
			say("%s: image %s: want linux/amd64 and linux/arm64 and an SBOM", configFile, i.ID)
		}
	}
	for repository, i := range made {
		say("%s: image %s (%s) is used by no component of the chart", configFile, i.ID, repository)
	}
}

func (f facts) checkChart(say func(string, ...any)) {
	if want := strings.TrimPrefix(f.versions[chartDir], "v"); f.chart.Version != want {
		say("%s/Chart.yaml: version is %q, %s says %q", chartDir, f.chart.Version, versionsFile, want)
	}
	if want := strings.TrimPrefix(f.versions[appVersionDir], "v"); f.chart.AppVersion != want {
		say("%s/Chart.yaml: appVersion is %q, the manager's version is %q", chartDir, f.chart.AppVersion, want)
	}
}

// section is a heading of a changelog: [Unreleased], maybe with the version that
// is to come, or a version with its date.
var section = regexp.MustCompile(`^## \[(Unreleased|[0-9]+\.[0-9]+\.[0-9]+)\](?: (?:- )?(\S+))?$`)

// checkChangelog looks at the newest section: the version that it names is the one
// that is developed towards.
func (f facts) checkChangelog(dir string, say func(string, ...any)) error {
	name := dir + "/CHANGELOG.md"
	raw, err := os.ReadFile(filepath.Join(f.tree.Root, filepath.FromSlash(name)))
	if errors.Is(err, os.ErrNotExist) {
		say("%s is missing", name)
		return nil
	}
	if err != nil {
		return err
	}
	want := strings.TrimPrefix(f.versions[dir], "v")
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "## ") {
			continue
		}
		found := section.FindStringSubmatch(line)
		switch {
		case found == nil:
			say("%s: %q is neither [Unreleased] nor a version", name, line)
		case found[1] == "Unreleased" && found[2] != "" && found[2] != want, found[1] != "Unreleased" && found[1] != want:
			say("%s: %q, %s says %s", name, line, versionsFile, f.versions[dir])
		}
		return nil
	}
	say("%s has no section", name)
	return nil
}
