package release

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/distort-io/distort/hack/tools/internal/git"
	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// Train is a folder that is released by itself, under tags of its own.
type Train struct {
	// Dir is the folder, such as modules/api or charts/distort.
	Dir string
	// Version that it is developed towards.
	Version string
}

// Tag is the name of the tag of its version.
func (t Train) Tag() string { return t.Dir + "/" + t.Version }

// Trains lists all of them: the order in which they are released.
func Trains(tree *repo.Tree) ([]Train, error) {
	f, err := read(tree)
	if err != nil {
		return nil, err
	}
	var trains []Train
	for _, dir := range f.trains() {
		trains = append(trains, Train{Dir: dir, Version: f.versions[dir]})
	}
	slices.SortStableFunc(trains, func(a, b Train) int { return rank(tree, a.Dir) - rank(tree, b.Dir) })
	return trains, nil
}

// rank is lower for what others need: modules that require no sibling, those that
// do, and the chart, which names the images of those.
func rank(tree *repo.Tree, dir string) int {
	m, ok := tree.Module(dir)
	switch {
	case !ok:
		return 2
	case len(siblings(m.File)) > 0:
		return 1
	}
	return 0
}

// Find finds a train by its folder or the last element of that.
func Find(tree *repo.Tree, name string) (Train, error) {
	trains, err := Trains(tree)
	if err != nil {
		return Train{}, err
	}
	var names []string
	for _, t := range trains {
		if name == t.Dir || name == path.Base(t.Dir) {
			return t, nil
		}
		names = append(names, t.Dir)
	}
	return Train{}, fmt.Errorf("module %q: %s has only %q", name, versionsFile, names)
}

// State is what became of a train since its last release.
type State struct {
	Train
	// Last is the version of its highest tag; empty before the first.
	Last string
	// Changed tells whether its folder differs from that tag.
	Changed bool
}

// States tells of each train what became of it.
func States(ctx context.Context, tree *repo.Tree, g git.Repo) ([]State, error) {
	trains, err := Trains(tree)
	if err != nil {
		return nil, err
	}
	var states []State
	for _, t := range trains {
		s := State{Train: t, Changed: true}
		if s.Last, err = g.LastVersion(ctx, t.Dir); err != nil {
			return nil, err
		}
		if s.Last != "" {
			if s.Changed, err = g.Changed(ctx, t.Dir+"/"+s.Last, t.Dir); err != nil {
				return nil, err
			}
		}
		states = append(states, s)
	}
	return states, nil
}
