package prepare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/debian"
)

const (
	// kernelPackage depends on the newest kernel of kernelSuite. The release's
	// own kernel lacks in-band authentication and TLS for NVMe-oF.
	kernelPackage = "linux-image-amd64"
	kernelSuite   = release + "-backports"
	// kernelPrefix is how the package with the kernel itself is named.
	kernelPrefix = "linux-image-6.12."
)

// Names in the kernel's artifact.
const (
	kernelImage   = "vmlinuz"
	kernelRelease = "release"
	kernelTree    = "tree"
)

// kernelStep unpacks the guests' kernel; nothing is installed on the host.
func kernelStep() Step {
	return Step{
		Name: "kernel", Summary: "Debian's kernel and modules for the guests", Needs: []string{"packages"}, Lane: LaneDebian,
		Key: func(context.Context, *Workshop) (string, error) {
			return cache.NewKey("kernel 1").String("suite", kernelSuite).String("prefix", kernelPrefix).Sum()
		},
		Build: buildKernel,
	}
}

func buildKernel(ctx context.Context, w *Workshop, dir string) error {
	sources, err := releaseSources()
	if err != nil {
		return err
	}
	private := filepath.Join(dir, "apt")
	defer os.RemoveAll(private)
	apt, err := debian.NewApt(ctx, w.Run, private, sources)
	if err != nil {
		return err
	}
	depends, err := apt.Depends(ctx, kernelPackage, kernelSuite)
	if err != nil {
		return err
	}
	name := ""
	for _, candidate := range depends {
		if strings.HasPrefix(candidate, kernelPrefix) {
			name = candidate
		}
	}
	if name == "" {
		return fmt.Errorf("package %s of %s depends on %v, none of which is %s*", kernelPackage, kernelSuite, depends, kernelPrefix)
	}
	file, err := apt.Download(ctx, name, kernelSuite)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, kernelTree)
	if err := debian.Unpack(ctx, w.Run, file, tree); err != nil {
		return err
	}
	version := strings.TrimPrefix(name, "linux-image-")
	if err := w.Run.Run(ctx, "depmod", "-b", tree, version); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, kernelRelease), []byte(version), 0o644); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(kernelTree, "boot", "vmlinuz-"+version), filepath.Join(dir, kernelImage))
}
