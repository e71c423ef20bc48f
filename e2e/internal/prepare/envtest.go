package prepare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/e2e/internal/cache"
)

// EnvKubeBinDir is the environment variable that names a directory with
// prebuilt Kubernetes programs and etcd, for those who need not compile them.
const EnvKubeBinDir = "KUBE_BIN_DIR"

// kubernetesSteps returns the steps "kubernetes" and "etcd" that take the
// programs from dir instead of compiling them.
func givenSteps(dir string) []Step {
	return []Step{
		givenStep("etcd", dir, []string{"etcd"}),
		givenStep("kubernetes", dir, kubernetesPrograms),
	}
}

func givenStep(name, dir string, programs []string) Step {
	return Step{
		Name: name, Summary: "from " + dir,
		Key: func(context.Context, *Workshop) (string, error) {
			key := cache.NewKey("given 1")
			for _, program := range programs {
				info, err := os.Stat(filepath.Join(dir, program))
				if err != nil {
					return "", fmt.Errorf("%s=%s must hold %v: %w", EnvKubeBinDir, dir, programs, err)
				}
				key.String(program, fmt.Sprint(info.Size(), info.ModTime().UnixNano()))
			}
			return key.String("dir", dir).Sum()
		},
		Build: func(_ context.Context, _ *Workshop, target string) error {
			return linkAll(dir, target, programs)
		},
	}
}

// envtestStep makes a directory of the shape KUBEBUILDER_ASSETS asks for.
func envtestStep() Step {
	return Step{
		Name: "envtest", Summary: "directory for KUBEBUILDER_ASSETS", Needs: []string{"kubernetes", "etcd"},
		Key: func(_ context.Context, w *Workshop) (string, error) {
			key := cache.NewKey("envtest 1")
			if err := w.AddArtifacts(key, "kubernetes", "etcd"); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: func(_ context.Context, w *Workshop, dir string) error {
			for step, programs := range map[string][]string{"kubernetes": kubernetesPrograms, "etcd": {"etcd"}} {
				source, err := w.Artifact(step)
				if err != nil {
					return err
				}
				if err := linkAll(source, dir, programs); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func linkAll(source, target string, programs []string) error {
	for _, program := range programs {
		if err := os.Symlink(filepath.Join(source, program), filepath.Join(target, program)); err != nil {
			return fmt.Errorf("link %s: %w", program, err)
		}
	}
	return nil
}
