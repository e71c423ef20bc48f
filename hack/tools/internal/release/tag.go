package release

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// CheckTag reports everything that keeps HEAD from being tagged as the version of
// a train.
func CheckTag(ctx context.Context, tree *repo.Tree, g git.Repo, t Train) error {
	_, unreleased := Notes(tree, t)
	problems := []error{Verify(ctx, tree, g), checkCommitted(ctx, g), unreleased}
	switch there, err := g.HasTag(ctx, t.Tag()); {
	case err != nil:
		return err
	case there:
		problems = append(problems, fmt.Errorf("tag %s exists: a version is released once; bump %s", t.Tag(), t.Dir))
	}
	needed, err := needs(tree, t)
	if err != nil {
		return err
	}
	for _, n := range needed {
		there, err := g.HasTag(ctx, n.Tag())
		if err != nil {
			return err
		}
		if !there {
			problems = append(problems, fmt.Errorf("%s needs %s %s, which is not tagged: tag that first", t.Dir, n.Dir, n.Version))
		}
	}
	return errors.Join(problems...)
}

func checkCommitted(ctx context.Context, g git.Repo) error {
	dirty, err := g.Dirty(ctx)
	if err != nil || len(dirty) == 0 {
		return err
	}
	return fmt.Errorf("a tag is of a commit, and this is in none:\n  %s", strings.Join(dirty, "\n  "))
}

// Notes is what the changelog says of a train's version; an error tells what keeps
// it from saying that this is released.
func Notes(tree *repo.Tree, t Train) (string, error) {
	name := t.Dir + "/CHANGELOG.md"
	raw, err := os.ReadFile(filepath.Join(tree.Root, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	notes, err := releasedSection(string(raw), t.Version)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return notes, nil
}

// needs are the trains whose versions a train names: the siblings of a module, and
// the modules whose images the chart uses.
func needs(tree *repo.Tree, t Train) ([]Train, error) {
	var needed []Train
	m, isModule := tree.Module(t.Dir)
	if isModule {
		for _, s := range siblings(m.File) {
			needed = append(needed, Train{Dir: strings.TrimPrefix(s.Path, repo.ModulePrefix), Version: s.Version})
		}
		return needed, nil
	}
	f, err := read(tree)
	if err != nil {
		return nil, err
	}
	for _, m := range tree.Modules {
		if image, used := f.chart.images()[filepath.Base(m.Dir)]; used {
			needed = append(needed, Train{Dir: m.Dir, Version: image.Tag})
		}
	}
	return needed, nil
}

// Message is that of the tag of a train.
func (t Train) Message() string { return fmt.Sprintf("%s %s", t.Dir, t.Version) }
