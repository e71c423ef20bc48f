package prepare

import (
	"context"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/imagestore"
	"github.com/distort-io/distort/e2e/internal/oci"
)

// imageDiskStep makes the disk with containerd's store: the images made by the
// steps in from, unpacked. Its key are the images' digests, so that a change of
// source that gives the same programs makes no new disk.
func imageDiskStep(name, summary string, from ...string) Step {
	return Step{
		Name: name, Summary: summary, Needs: append([]string{"containerd", "packages"}, from...), Keep: 3,
		Key: func(_ context.Context, w *Workshop) (string, error) {
			images, err := imageFiles(w, from)
			if err != nil {
				return "", err
			}
			key := cache.NewKey("image-disk 1").String("size", imageDiskSize)
			for _, image := range images {
				digest, err := oci.Digest(image)
				if err != nil {
					return "", err
				}
				key.String(filepath.Base(image), digest)
			}
			if err := w.AddArtifacts(key, "containerd"); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: func(ctx context.Context, w *Workshop, dir string) error {
			images, err := imageFiles(w, from)
			if err != nil {
				return err
			}
			programs, err := w.Artifact("containerd")
			if err != nil {
				return err
			}
			tree := filepath.Join(dir, "tree")
			defer os.RemoveAll(tree)
			if err := os.MkdirAll(tree, 0o711); err != nil {
				return err
			}
			if err := imagestore.Fill(ctx, w.Run, programs, tree, images); err != nil {
				return err
			}
			return makeFilesystem(ctx, w.Run, tree, filepath.Join(dir, imageDisk), imageDiskSize)
		},
	}
}

func imageFiles(w *Workshop, from []string) ([]string, error) {
	var images []string
	for _, step := range from {
		dir, err := w.Artifact(step)
		if err != nil {
			return nil, err
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"+ImageSuffix))
		if err != nil {
			return nil, err
		}
		images = append(images, files...)
	}
	return images, nil
}
