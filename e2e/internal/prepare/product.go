package prepare

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/oci"
)

// productModules are the parts of the checkout that the product's programs are
// built from.
var productModules = []string{"api", "nvmeof", "agent", "manager", "csi"}

// Explainer is the kubectl plugin in the product's artifact.
const Explainer = "kubectl-distort"

// productStep builds the programs of this checkout and their images.
func productStep() Step {
	return Step{
		Name: StepProduct, Summary: "distort-manager, -agent, -csi and kubectl-distort of this checkout", Needs: []string{"base-images"}, Lane: LaneCompile, Keep: 3,
		Key: func(_ context.Context, w *Workshop) (string, error) {
			key := cache.NewKey("product 3").Files(w.Repo, "go.work", "go.work.sum")
			for _, module := range productModules {
				key.String("module", module).Tree(filepath.Join(w.Repo, "modules", module), "*.go", "go.mod", "go.sum")
			}
			if err := w.AddArtifacts(key, "base-images"); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: buildProduct,
	}
}

func buildProduct(ctx context.Context, w *Workshop, dir string) error {
	base, err := w.Artifact("base-images")
	if err != nil {
		return err
	}
	tools, err := oci.OpenLayer(filepath.Join(base, toolsLayer))
	if err != nil {
		return err
	}
	for _, image := range productImages {
		name := "distort-" + image.module
		program := filepath.Join(dir, name)
		if err := w.buildProgram(ctx, program, image.module); err != nil {
			return err
		}
		reference := imagePrefix + name + productTag
		if err := image.write(filepath.Join(dir, imageFile(reference)), reference, program, "", tools); err != nil {
			return err
		}
	}
	return w.buildProgram(ctx, filepath.Join(dir, Explainer), "manager")
}

// write writes the image with a program of that architecture.
func (i productImage) write(file, reference, program, architecture string, tools oci.Layer) error {
	inside := "/distort-" + i.module
	layer, err := oci.BuildLayer(file+".layer", []oci.Entry{{Path: inside, Source: program}})
	if err != nil {
		return err
	}
	layers := []oci.Layer{layer}
	if i.tools {
		layers = []oci.Layer{tools, layer}
	}
	_, err = oci.Write(file, oci.Image{
		Architecture: architecture, Reference: reference, Layers: layers, Entrypoint: []string{inside}, User: i.user, Env: []string{productPath},
	})
	return errors.Join(err, os.Remove(layer.Path))
}

// buildProgram builds the program of that name of a module of this checkout.
func (w *Workshop) buildProgram(ctx context.Context, path, module string) error {
	return w.Run.With("CGO_ENABLED=0").In(w.Repo).Run(ctx, "go", "build", "-trimpath", "-ldflags", strip, "-o", path, "./modules/"+module+"/cmd/"+filepath.Base(path))
}
