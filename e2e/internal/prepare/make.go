package prepare

import (
	"context"
	"io"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// Make runs the named steps of the catalogue and what they need, in the user's
// cache. No name means what Plan says.
func Make(ctx context.Context, progress io.Writer, only []string) (Artifacts, error) {
	root, err := repo.Root()
	if err != nil {
		return nil, err
	}
	dir, err := cache.Dir()
	if err != nil {
		return nil, err
	}
	steps, err := Plan(Catalogue(), only)
	if err != nil {
		return nil, err
	}
	preparer := &Preparer{Repo: root, Store: cache.NewStore(dir), Progress: NewProgress(progress)}
	return preparer.Run(ctx, steps)
}
