package release

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// Parts of a version that can be raised.
var Parts = []string{"major", "minor", "patch"}

// Bump raises a part of a train's version everywhere where that is named, and lets
// the newest section of its changelog be of the new one.
func Bump(tree *repo.Tree, t Train, part string) (*Edits, error) {
	to, err := next(t.Version, part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Dir, err)
	}
	m, isModule := tree.Module(t.Dir)
	if isModule && semver.Major(to) != "v0" && semver.Major(to) != "v1" {
		return nil, fmt.Errorf("%s: %s changes the module's path to %s/%s: do that by hand first", t.Dir, to, m.Path, semver.Major(to))
	}
	e := newEdits(tree.Root)
	if err := e.replace(versionsFile, t.Dir+": "+t.Version, t.Dir+": "+to); err != nil {
		return nil, err
	}
	if isModule {
		err = e.bumpModule(tree, m, to)
	} else {
		err = e.replace(chartDir+"/Chart.yaml", "version: "+t.Version[1:], "version: "+to[1:])
	}
	if err != nil {
		return nil, err
	}
	return e, e.changelog(t.Dir, func(text string) (string, heading, string, error) { return openSection(text, to) })
}

// Close dates the changelog of the version that a train is about to be released as.
func Close(tree *repo.Tree, t Train, date time.Time) (*Edits, error) {
	e := newEdits(tree.Root)
	return e, e.changelog(t.Dir, func(text string) (string, heading, string, error) {
		return closeSection(text, t.Version, date)
	})
}

func (e *Edits) changelog(dir string, change func(string) (string, heading, string, error)) error {
	name := dir + "/CHANGELOG.md"
	text, err := e.read(name)
	if err != nil {
		return err
	}
	changed, had, now, err := change(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if had.line != now {
		e.set(name, changed, had.line, now)
	}
	return nil
}

// bumpModule follows a module's version to those who name it: go.mod of its users,
// go.work, and the chart for its program.
func (e *Edits) bumpModule(tree *repo.Tree, m repo.Module, to string) error {
	old, now := m.Path+" "+m.Version, m.Path+" "+to
	for _, dir := range tree.WorkspaceDirs {
		file, err := readMod(tree, dir)
		if err != nil {
			return err
		}
		for _, s := range siblings(file) {
			if s.Path != m.Path {
				continue
			}
			if err := e.replace(dir+"/go.mod", old, now); err != nil {
				return err
			}
		}
	}
	for _, r := range tree.Work.Replace {
		if r.Old.Path != m.Path || r.Old.Version == "" {
			continue
		}
		if err := e.replace("go.work", old, now); err != nil {
			return err
		}
	}
	f, err := read(tree)
	if err != nil {
		return err
	}
	name := path.Base(m.Dir)
	if image, used := f.chart.images()[name]; used {
		program := path.Base(image.Repository)
		if err := e.replace(chartDir+"/values.yaml", program+", tag: "+m.Version, program+", tag: "+to); err != nil {
			return err
		}
	}
	if m.Dir == appVersionDir {
		return e.replace(chartDir+"/Chart.yaml", "appVersion: "+m.Version[1:], "appVersion: "+to[1:])
	}
	return nil
}

// next raises a part of a version.
func next(version, part string) (string, error) {
	at := slices.Index(Parts, part)
	if at < 0 {
		return "", fmt.Errorf("part %q: want one of %q", part, Parts)
	}
	if semver.Canonical(version) != version || semver.Prerelease(version) != "" {
		return "", fmt.Errorf("version %q: want vX.Y.Z", version)
	}
	numbers := strings.Split(version[1:], ".")
	n, err := strconv.Atoi(numbers[at])
	if err != nil {
		return "", fmt.Errorf("version %q: %w", version, err)
	}
	numbers[at] = strconv.Itoa(n + 1)
	for i := at + 1; i < len(numbers); i++ {
		numbers[i] = "0"
	}
	return "v" + strings.Join(numbers, "."), nil
}
