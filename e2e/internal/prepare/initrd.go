package prepare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/initramfs"
	"github.com/distort-io/distort/e2e/internal/kmod"
)

// bootModules are what the guest needs to mount its root; the rest is loaded
// from there. ext4 asks for the checksum by name when it mounts, which no list
// of dependencies tells.
var bootModules = []string{"virtio_pci", "virtio_blk", "virtio_net", "crc32c_generic", "ext4"}

// initrdFile is the archive in the artifact of initrdStep. One with the
// guest's spec is appended for each guest.
const initrdFile = "initrd.cpio"

// guestProgram lists the directories that the guest's program is made of.
var guestProgram = []string{"cmd/labguest", "internal/guestinit", "internal/guestexec", "internal/guestspec"}

func initrdStep() Step {
	return Step{
		Name: "initrd", Summary: "the guests' first file system", Needs: []string{"kernel", "packages"}, Lane: LaneCompile, Keep: 5,
		Key: func(ctx context.Context, w *Workshop) (string, error) {
			key := cache.NewKey("initrd 1").Strings("modules", bootModules)
			for _, dir := range guestProgram {
				key.Tree(filepath.Join(w.Repo, "e2e", dir), "*.go")
			}
			if err := w.AddArtifacts(key, "kernel"); err != nil {
				return "", err
			}
			return key.Sum()
		},
		Build: buildInitrd,
	}
}

func buildInitrd(ctx context.Context, w *Workshop, dir string) error {
	program := filepath.Join(dir, "labguest")
	if err := w.Run.With("CGO_ENABLED=0").In(w.Repo).Run(ctx, "go", "build", "-trimpath", "-ldflags", strip, "-o", program, "./e2e/cmd/labguest"); err != nil {
		return err
	}
	modulesDir, _, err := kernelModules(w)
	if err != nil {
		return err
	}
	index, err := kmod.Load(modulesDir)
	if err != nil {
		return err
	}
	modules, err := index.Closure(bootModules)
	if err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, initrdFile))
	if err != nil {
		return err
	}
	defer out.Close()
	archive := initramfs.NewWriter(out)
	for _, name := range []string{"dev", "proc", "sys", "newroot", "lab", strings.TrimPrefix(guestspec.ModuleDir, "/")} {
		if err := archive.Directory(name); err != nil {
			return err
		}
	}
	init, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := archive.File("init", 0o755, init); err != nil {
		return err
	}
	var order strings.Builder
	for _, module := range modules {
		content, err := moduleContent(ctx, w, filepath.Join(modulesDir, module))
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(module), ".xz")
		fmt.Fprintln(&order, name)
		if err := archive.File(strings.TrimPrefix(guestspec.ModuleDir, "/")+"/"+name, 0o644, content); err != nil {
			return err
		}
	}
	if err := archive.File(strings.TrimPrefix(guestspec.ModuleList, "/"), 0o644, []byte(order.String())); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return out.Close()
}

// kernelModules returns the modules' directory and the release of the kernel.
func kernelModules(w *Workshop) (dir, version string, err error) {
	kernel, err := w.Artifact("kernel")
	if err != nil {
		return "", "", err
	}
	data, err := os.ReadFile(filepath.Join(kernel, kernelRelease))
	if err != nil {
		return "", "", err
	}
	version = string(data)
	return filepath.Join(kernel, kernelTree, "lib", "modules", version), version, nil
}

// moduleContent reads a module, decompressed: emulated guests load it faster.
func moduleContent(ctx context.Context, w *Workshop, path string) ([]byte, error) {
	if !strings.HasSuffix(path, ".xz") {
		return os.ReadFile(path)
	}
	quiet := w.Run
	quiet.Log = nil
	out, err := quiet.Output(ctx, "xz", "-dc", "--", path)
	return []byte(out), err
}
