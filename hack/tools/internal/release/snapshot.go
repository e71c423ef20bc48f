package release

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
	"github.com/distort-io/distort/hack/tools/internal/standalone"
)

// SnapshotOptions say what Snapshot builds.
type SnapshotOptions struct {
	// Dir is the folder for the programs, made anew.
	Dir string
	// Modules and Architectures are built; all of .goreleaser.yaml when empty.
	Modules, Architectures []string
	Out                    io.Writer
}

// Snapshot builds the programs of .goreleaser.yaml as a release would, with its
// flags, from the modules at the versions of versions.yaml that a proxy made of the
// tree serves, and proves of each that it says so. Programs are called
// <binary>_<os>_<architecture>; their sums are in checksums.txt.
func Snapshot(ctx context.Context, tree *repo.Tree, o SnapshotOptions) error {
	f, err := read(tree)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "distort-snapshot-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	proxy, err := standalone.Proxy(ctx, tree, filepath.Join(scratch, "proxy"))
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, b := range f.config.Builds {
		m, ok := tree.Module(b.Dir)
		if !ok || (len(o.Modules) > 0 && !slices.Contains(o.Modules, filepath.Base(b.Dir))) {
			continue
		}
		for _, arch := range b.GOARCH {
			if len(o.Architectures) > 0 && !slices.Contains(o.Architectures, arch) {
				continue
			}
			name := b.Binary + "_linux_" + arch
			fmt.Fprintf(o.Out, "build %s of %s %s\n", name, m.Dir, m.Version)
			program := filepath.Join(o.Dir, name)
			if err := b.build(ctx, tree, m, program, arch, filepath.Join(scratch, b.ID), proxy, o.Out); err != nil {
				return fmt.Errorf("build %s: %w", name, err)
			}
			if err := released(program, tree); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			sum, err := sumOf(program)
			if err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%s  %s\n", sum, name)
		}
	}
	return os.WriteFile(filepath.Join(o.Dir, "checksums.txt"), []byte(sums.String()), 0o644)
}

// build builds the program in a module that requires nothing but its module, so
// that the program is stamped with that module's version.
func (b build) build(ctx context.Context, tree *repo.Tree, m repo.Module, program, arch, scratch string, proxy []string, out io.Writer) error {
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		return err
	}
	mod := fmt.Sprintf("module snapshot\n\ngo %s\n\nrequire %s %s\n", m.File.Go.Version, m.Path, m.Version)
	if err := os.WriteFile(filepath.Join(scratch, "go.mod"), []byte(mod), 0o644); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(tree.Root, m.Dir, "go.sum"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "go.sum"), sums, 0o644); err != nil {
		return err
	}
	args := append([]string{"build", "-mod=mod"}, b.Flags...)
	args = append(args, "-ldflags", strings.Join(b.Ldflags, " "), "-o", program, m.Path+"/"+strings.TrimPrefix(b.Main, "./"))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = scratch
	cmd.Env = append(append(append(os.Environ(), b.Env...), proxy...), "GOOS=linux", "GOARCH="+arch)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

// released tells what in a program is not at the version of versions.yaml.
func released(program string, tree *repo.Tree) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	for _, part := range append(slices.Clone(info.Deps), &info.Main) {
		dir, ours := strings.CutPrefix(part.Path, repo.ModulePrefix)
		if !ours {
			continue
		}
		if m, known := tree.Module(dir); !known || part.Version != m.Version || part.Replace != nil {
			return fmt.Errorf("it was built with %s %s, %s says %s", part.Path, part.Version, versionsFile, m.Version)
		}
	}
	return nil
}

func sumOf(file string) (string, error) {
	in, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
