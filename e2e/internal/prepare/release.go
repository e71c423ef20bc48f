package prepare

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/distort-io/distort/e2e/internal/oci"
)

// StepBaseImages makes the layer with the tools.
const StepBaseImages = "base-images"

// ReleaseImages writes an OCI image layout, in a tar file, for each program
// distort-<module>_linux_<architecture> in the folder programs, under the names by
// which the chart of the checkout uses the images. The tools of an image are those
// of this machine's Debian: for another architecture such an image is left out, and
// progress says so.
func ReleaseImages(made Artifacts, repo, programs, out string, progress io.Writer) error {
	references, err := chartImages(repo)
	if err != nil {
		return err
	}
	tools, err := oci.OpenLayer(filepath.Join(made[StepBaseImages], toolsLayer))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, image := range productImages {
		found, err := filepath.Glob(filepath.Join(programs, "distort-"+image.module+"_linux_*"))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("no program distort-%s_linux_* in %s", image.module, programs)
		}
		for _, program := range found {
			_, architecture, _ := strings.Cut(filepath.Base(program), "_linux_")
			if image.tools && architecture != runtime.GOARCH {
				fmt.Fprintf(progress, "image %s for %s is left out: its tools are there for %s only\n", references[image.module], architecture, runtime.GOARCH)
				continue
			}
			file := filepath.Join(out, filepath.Base(program)+ImageSuffix)
			if err := image.write(file, references[image.module], program, architecture, tools); err != nil {
				return err
			}
			digest, err := oci.Digest(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(progress, "image %s for %s: %s\n", references[image.module], architecture, digest)
		}
	}
	return nil
}

// chartImages returns the references of the product's images in the chart's
// values, by module.
func chartImages(repo string) (map[string]string, error) {
	raw, err := os.ReadFile(filepath.Join(repo, "charts", "distort", "values.yaml"))
	if err != nil {
		return nil, err
	}
	var values struct {
		Images map[string]any `json:"images"`
	}
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return nil, fmt.Errorf("values of the chart: %w", err)
	}
	references := map[string]string{}
	for _, image := range productImages {
		of, _ := values.Images[image.module].(map[string]any)
		repository, tag := of["repository"], of["tag"]
		if repository == nil || tag == nil {
			return nil, errors.New("values of the chart: images." + image.module + " has no repository or no tag")
		}
		references[image.module] = fmt.Sprintf("%v:%v", repository, tag)
	}
	return references, nil
}
