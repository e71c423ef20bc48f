package suite

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/distort-io/distort/e2e/internal/prepare"
)

// steps are what suites need that the lab does not boot from.
var steps = map[string][]string{
	"pools":   {prepare.StepZFS, prepare.StepAttacher, prepare.StepHelm},
	"volumes": {prepare.StepHelm},
}

// Prepare makes what the named suites need, all suites when none is named. It is done
// before the lab runs, whose guests it would starve.
func Prepare(ctx context.Context, progress io.Writer, repo string, names []string) error {
	names, err := choose(filepath.Join(repo, "e2e"), names)
	if err != nil {
		return err
	}
	if needed := needs(names); len(needed) > 0 {
		_, err = prepare.Make(ctx, progress, needed)
	}
	return err
}

// needs are the steps of suites.
func needs(names []string) []string {
	var needed []string
	for _, name := range names {
		needed = append(needed, steps[name]...)
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

// Prepared returns what the named suite needs, and makes what is missing.
func Prepared(t *testing.T, name string) prepare.Artifacts {
	t.Helper()
	made, err := prepare.Make(t.Context(), os.Stdout, needs([]string{name}))
	Must(t, err)
	return made
}
