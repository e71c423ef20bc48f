package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/distort-io/distort/hack/tools/internal/boundaries"
	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// Verify reports everything that keeps the tree from being released: what
// boundaries and Check find, and versions that contradict the tags.
func Verify(ctx context.Context, tree *repo.Tree, g git.Repo) error {
	problems := []error{boundaries.Check(tree), Check(tree)}
	if !g.IsCheckout(ctx) {
		return errors.Join(problems...)
	}
	states, err := States(ctx, tree, g)
	if err != nil {
		return err
	}
	for _, s := range states {
		problems = append(problems, s.check())
	}
	return errors.Join(problems...)
}

// check compares the version that a train is developed towards with its tags. A
// module proxy never forgets a version: what changed after a tag has another one.
func (s State) check() error {
	switch {
	case s.Last == "":
		return nil
	case semver.Compare(s.Version, s.Last) < 0:
		return fmt.Errorf("%s: %s is %s, and %s/%s is tagged: a version never goes back", versionsFile, s.Dir, s.Version, s.Dir, s.Last)
	case s.Version == s.Last && s.Changed:
		return fmt.Errorf("%s: %s is %s, and the folder changed since that was tagged: bump it", versionsFile, s.Dir, s.Version)
	}
	return nil
}

// checkVersions looks at each version by itself.
func (f facts) checkVersions(say func(string, ...any)) {
	for _, dir := range f.trains() {
		if v := f.versions[dir]; semver.Canonical(v) != v || v == "" {
			say("%s: %s is %q, want vX.Y.Z", versionsFile, dir, v)
		}
	}
}

// checkWorkspace compares what is never published with versions.yaml too: the
// replacements of go.work, and the modules of tests and tools.
func (f facts) checkWorkspace(say func(string, ...any)) error {
	for _, r := range f.tree.Work.Replace {
		m, known := f.tree.Module(strings.TrimPrefix(r.Old.Path, repo.ModulePrefix))
		if known && r.Old.Version != "" && r.Old.Version != m.Version {
			say("go.work: replaces %s %s, %s says %s", r.Old.Path, r.Old.Version, versionsFile, m.Version)
		}
	}
	for _, dir := range f.tree.WorkspaceDirs {
		if _, published := f.tree.Module(dir); published {
			continue // boundaries looks at these
		}
		file, err := readMod(f.tree, dir)
		if err != nil {
			return err
		}
		for _, s := range siblings(file) {
			m, known := f.tree.Module(strings.TrimPrefix(s.Path, repo.ModulePrefix))
			if known && s.Version != m.Version {
				say("%s/go.mod: requires %s %s, %s says %s", dir, s.Path, s.Version, versionsFile, m.Version)
			}
		}
	}
	return nil
}

// siblings are the modules of this repository that a go.mod requires.
func siblings(file *modfile.File) []module.Version {
	var found []module.Version
	for _, r := range file.Require {
		if strings.HasPrefix(r.Mod.Path, repo.ModulePrefix) {
			found = append(found, r.Mod)
		}
	}
	return found
}

func readMod(tree *repo.Tree, dir string) (*modfile.File, error) {
	raw, err := os.ReadFile(filepath.Join(tree.Root, filepath.FromSlash(dir), "go.mod"))
	if err != nil {
		return nil, err
	}
	return modfile.Parse(dir+"/go.mod", raw, nil)
}
