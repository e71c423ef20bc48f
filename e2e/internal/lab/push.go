package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
)

// PushProduct gives running guests the product's images, if these are others
// than the guests have. It says whether they were.
func (l *Lab) PushProduct(ctx context.Context, made prepare.Artifacts) (bool, error) {
	state, err := l.State()
	if err != nil {
		return false, err
	}
	product := made[prepare.StepProduct]
	if product == "" || state.Artifacts[prepare.StepProduct] == product {
		return false, nil
	}
	images, err := filepath.Glob(filepath.Join(product, "*"+prepare.ImageSuffix))
	if err != nil {
		return false, err
	}
	var group sync.WaitGroup
	nodes := layout.Nodes()
	failures := make([]error, len(nodes))
	for i, node := range nodes {
		group.Go(func() { failures[i] = l.importImages(ctx, node.Name, images) })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return false, err
	}
	rec := &record{path: filepath.Join(l.dir, stateFile), state: state}
	return true, rec.change(func(s *State) { s.Artifacts[prepare.StepProduct] = product })
}

func (l *Lab) importImages(ctx context.Context, name string, images []string) error {
	guest, err := l.Guest(name)
	if err != nil {
		return err
	}
	for _, image := range images {
		file, err := os.Open(image)
		if err != nil {
			return fmt.Errorf("push image: %w", err)
		}
		_, err = guest.Pipe(ctx, file, "ctr", "-n", "k8s.io", "images", "import", "--local", "-")
		file.Close()
		if err != nil {
			return fmt.Errorf("push image %s: %w", filepath.Base(image), err)
		}
	}
	return nil
}
