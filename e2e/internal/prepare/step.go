package prepare

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/command"
)

// Lane is a resource that one building step holds at a time.
type Lane string

// Lanes.
const (
	// LaneNone is for steps that are short or only copy.
	LaneNone Lane = ""
	// LaneCompile is for the Go compiler, which uses every CPU by itself.
	LaneCompile Lane = "compile"
	// LaneDebian is for apt and dpkg, and for downloads from the Debian mirror.
	LaneDebian Lane = "debian"
)

// Step makes one artifact.
type Step struct {
	// Name is unique, and is the directory of the step in the cache.
	Name string
	// Summary says in a few words what is made.
	Summary string
	// Needs names the steps whose artifacts Key and Build may read.
	Needs []string
	// Lane is held while building.
	Lane Lane
	// OnDemand steps are made only when they are named or needed.
	OnDemand bool
	// Keep, if not zero, is how many entries of this step stay in the cache.
	Keep int
	// Key hashes the inputs. A step without one is done anew every time: it
	// changes the host, not the cache, and Build gets no directory.
	Key func(ctx context.Context, w *Workshop) (string, error)
	// Build makes the artifact in dir.
	Build func(ctx context.Context, w *Workshop, dir string) error
}

// Workshop is what a step works with.
type Workshop struct {
	// Repo is the root of the checkout.
	Repo string
	// Store holds the artifacts.
	Store cache.Store
	// Run runs programs and logs to the step's own file.
	Run command.Runner
	// Announce tells the user that work has begun. It is called for steps with
	// a key; one without calls it when it finds that there is work.
	Announce func()

	artifacts *artifacts
	needs     []string
}

// Components returns the directory of one of the pinned upstream modules.
func (w *Workshop) Components(name string) string {
	return filepath.Join(w.Repo, "e2e", "components", name)
}

// Artifact returns the directory that a needed step has made. Asking for one
// that is not among the step's needs is a mistake in the step, found by the
// first run of it.
func (w *Workshop) Artifact(step string) (string, error) {
	for _, need := range w.needs {
		if need == step {
			return w.artifacts.get(step), nil
		}
	}
	return "", fmt.Errorf("step reads the artifact of %q, which it does not need", step)
}

// AddArtifacts adds the keys of the needed steps to a key: an artifact's path
// ends in its own key, so this covers everything it was made from.
func (w *Workshop) AddArtifacts(key *cache.Key, steps ...string) error {
	for _, step := range steps {
		path, err := w.Artifact(step)
		if err != nil {
			return err
		}
		key.String(step, filepath.Base(path))
	}
	return nil
}
