package prepare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/distort-io/distort/e2e/internal/cache"
	"github.com/distort-io/distort/e2e/internal/debian"
)

const (
	// zfsPackage has the source of the modules, zfsComponent is where Debian has ZFS.
	zfsPackage   = "zfs-dkms"
	zfsComponent = "contrib"
)

// ZFSModules are the files in the artifact of StepZFS, in the order in which a
// kernel loads them. They depend on nothing else.
var ZFSModules = []string{"spl.ko", "zfs.ko"}

// zfsStep builds ZFS for the guests' kernel, from the suite that has the kernel
// and, with guestPackages, the programs. Nothing is installed on the host.
func zfsStep() Step {
	return Step{
		Name: StepZFS, Summary: "ZFS modules for the guests' kernel", Needs: []string{"kernel", "compiler"}, Lane: LaneCompile,
		Key: func(_ context.Context, w *Workshop) (string, error) {
			_, version, err := kernelModules(w)
			if err != nil {
				return "", err
			}
			return cache.NewKey("zfs 1").String("suite", kernelSuite).String("kernel", version).Strings("modules", ZFSModules).Sum()
		},
		Build: buildZFS,
	}
}

func buildZFS(ctx context.Context, w *Workshop, dir string) error {
	_, version, err := kernelModules(w)
	if err != nil {
		return err
	}
	work := filepath.Join(dir, "work")
	defer os.RemoveAll(work)
	tree := filepath.Join(work, "tree")
	if err := unpackZFSSources(ctx, w, work, tree, version); err != nil {
		return err
	}
	headers := filepath.Join(tree, "usr", "src", "linux-headers-"+version)
	common, err := bindHeaders(headers)
	if err != nil {
		return err
	}
	sources, err := filepath.Glob(filepath.Join(tree, "usr", "src", "zfs-*"))
	if err != nil || len(sources) != 1 {
		return fmt.Errorf("package %s has %d folders of source, want 1: %v", zfsPackage, len(sources), sources)
	}
	run := w.Run.In(sources[0]).With("LC_ALL=C")
	for _, args := range [][]string{
		{"./configure", "CC=gcc-12", "--disable-dependency-tracking", "--with-config=kernel", "--with-linux=" + common, "--with-linux-obj=" + headers},
		{"make", fmt.Sprintf("-j%d", runtime.NumCPU())},
	} {
		if err := run.Run(ctx, "nice", append([]string{"-n", "19"}, args...)...); err != nil {
			return err
		}
	}
	for _, module := range ZFSModules {
		file := filepath.Join(dir, module)
		if err := copyFile(filepath.Join(sources[0], "module", module), file, 0o644); err != nil {
			return err
		}
		if err := w.Run.Run(ctx, "strip", "--strip-debug", file); err != nil {
			return err
		}
		magic, err := w.Run.Output(ctx, "modinfo", "-F", "vermagic", file)
		if err != nil {
			return err
		}
		if built, _, _ := strings.Cut(magic, " "); built != version {
			return fmt.Errorf("%s is for kernel %q, the guests have %q", module, built, version)
		}
	}
	return nil
}

// unpackZFSSources puts the source of ZFS, and what external modules of the kernel
// are built with, below tree.
func unpackZFSSources(ctx context.Context, w *Workshop, work, tree, version string) error {
	sources, err := releaseSources(zfsComponent)
	if err != nil {
		return err
	}
	apt, err := debian.NewApt(ctx, w.Run, filepath.Join(work, "apt"), sources)
	if err != nil {
		return err
	}
	headers := "linux-headers-" + version
	depends, err := apt.Depends(ctx, headers, kernelSuite)
	if err != nil {
		return fmt.Errorf("%s may have a newer kernel than the cache: remove the artifact of step %s there: %w", kernelSuite, StepKernel, err)
	}
	packages := []string{zfsPackage, headers}
	for _, name := range depends {
		if strings.HasPrefix(name, "linux-headers-") || strings.HasPrefix(name, "linux-kbuild-") {
			packages = append(packages, name)
		}
	}
	for _, name := range packages {
		file, err := apt.Download(ctx, name, kernelSuite)
		if err != nil {
			return err
		}
		if err := debian.Unpack(ctx, w.Run, file, tree); err != nil {
			return err
		}
	}
	return nil
}

// bindHeaders makes unpacked headers usable where they are, and returns the
// headers that all flavours of the kernel have in common, which lie beside them.
func bindHeaders(headers string) (common string, err error) {
	makefile := filepath.Join(headers, "Makefile")
	text, err := os.ReadFile(makefile)
	if err != nil {
		return "", err
	}
	installed, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "include ")
	if !ok {
		return "", fmt.Errorf("%s includes no other: %q", makefile, text)
	}
	common = filepath.Join(filepath.Dir(headers), filepath.Base(filepath.Dir(installed)))
	if err := os.WriteFile(makefile, []byte("include "+filepath.Join(common, "Makefile")+"\n"), 0o644); err != nil {
		return "", err
	}
	// With this file beside them modules would get type information for BPF, by a
	// program that the host need not have.
	if err := os.Remove(filepath.Join(headers, "vmlinux")); err != nil && !os.IsNotExist(err) {
		return "", err
	}
	return common, nil
}
