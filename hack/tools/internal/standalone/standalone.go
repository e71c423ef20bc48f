// Package standalone runs the go command on one module as a stranger would who
// has only released versions: with GOWORK=off, and with the siblings served by
// a file-system module proxy made from the tree.
package standalone

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// Options of Run.
type Options struct {
	// Dirs are the module folders; all published modules when empty.
	Dirs []string
	// BuildOnly builds and vets, tests included, and runs nothing.
	BuildOnly bool
	// Out receives what the go command prints.
	Out io.Writer
}

// Run builds, vets and tests modules outside the workspace.
func Run(ctx context.Context, tree *repo.Tree, opts Options) error {
	proxy, err := os.MkdirTemp("", "distort-proxy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(proxy)
	env, err := Proxy(ctx, tree, proxy)
	if err != nil {
		return err
	}
	dirs := opts.Dirs
	if len(dirs) == 0 {
		for _, m := range tree.Modules {
			dirs = append(dirs, m.Dir)
		}
	}
	for _, dir := range dirs {
		if err := runModule(ctx, tree, dir, env, opts); err != nil {
			return fmt.Errorf("%s outside the workspace: %w", dir, err)
		}
	}
	return nil
}

func runModule(ctx context.Context, tree *repo.Tree, dir string, env []string, opts Options) error {
	scratch, err := os.MkdirTemp("", "distort-module-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	modFile, err := copyModFiles(filepath.Join(tree.Root, dir), scratch)
	if err != nil {
		return err
	}
	g := goCommand{dir: filepath.Join(tree.Root, dir), out: opts.Out, env: append([]string{"GOFLAGS=-mod=mod -modfile=" + modFile}, env...)}
	fmt.Fprintf(opts.Out, "== %s with GOWORK=off\n", dir)
	if err := g.run(ctx, "build", "./..."); err != nil {
		return err
	}
	if opts.BuildOnly {
		return g.run(ctx, "vet", "./...")
	}
	return g.run(ctx, "test", "./...")
}

// Proxy publishes the tree in a proxy of its own, in dir, and returns the
// environment with which the go command takes the siblings from there.
func Proxy(ctx context.Context, tree *repo.Tree, dir string) ([]string, error) {
	if err := publish(tree, dir); err != nil {
		return nil, err
	}
	if err := forget(ctx, tree); err != nil {
		return nil, err
	}
	upstream, err := goEnv(ctx, "GOPROXY")
	if err != nil {
		return nil, err
	}
	return []string{
		"GOWORK=off",
		"GOPROXY=file://" + filepath.ToSlash(dir) + "," + upstream,
		"GONOSUMDB=" + repo.ModulePrefix + "*",
		noModuleIndex(),
	}, nil
}

// noModuleIndex keeps the go command from its index of the files of a module in
// the module cache. It knows a module by its version alone
// (cmd/go/internal/modindex), and our unreleased versions change: without this a
// file added to a sibling is not seen where an older tree was built before.
func noModuleIndex() string {
	settings := "goindex=0"
	if have := os.Getenv("GODEBUG"); have != "" {
		settings = have + "," + settings
	}
	return "GODEBUG=" + settings
}

// Tidy runs go mod tidy for the module in dir. Siblings are replaced by the
// tree in a copy of go.mod, so that no replace line and no checksum of an
// unreleased version is ever committed.
func Tidy(ctx context.Context, tree *repo.Tree, dir string, diff bool, out io.Writer) error {
	scratch, err := os.MkdirTemp("", "distort-tidy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	source := filepath.Join(tree.Root, dir)
	modFile, err := copyModFiles(source, scratch)
	if err != nil {
		return err
	}
	g := goCommand{dir: source, out: out, env: []string{"GOWORK=off"}}
	edit := []string{"mod", "edit"}
	undo := []string{"mod", "edit"}
	for _, m := range tree.Modules {
		edit = append(edit, "-replace="+m.Path+"="+filepath.Join(tree.Root, m.Dir))
		undo = append(undo, "-dropreplace="+m.Path)
	}
	if err := g.run(ctx, append(edit, modFile)...); err != nil {
		return err
	}
	if err := g.run(ctx, "mod", "tidy", "-modfile="+modFile); err != nil {
		return err
	}
	if err := g.run(ctx, append(undo, modFile)...); err != nil {
		return err
	}
	return compareOrCopy(scratch, source, dir, diff)
}

// compareOrCopy brings the tidied files back, or with diff says which differ.
func compareOrCopy(scratch, source, dir string, diff bool) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		want, err := os.ReadFile(filepath.Join(scratch, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		have, err := os.ReadFile(filepath.Join(source, name))
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if string(have) == string(want) {
			continue
		}
		if diff {
			return fmt.Errorf("%s/%s is not tidy: run make tidy", dir, name)
		}
		if err := os.WriteFile(filepath.Join(source, name), want, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyModFiles copies go.mod and go.sum to scratch and returns the copy of
// go.mod; the go command keeps a go.sum beside a -modfile.
func copyModFiles(source, scratch string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(source, name))
		if name == "go.sum" && os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(scratch, name), raw, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(scratch, "go.mod"), nil
}

type goCommand struct {
	dir string
	env []string
	out io.Writer
}

func (g goCommand) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), g.env...)
	cmd.Stdout, cmd.Stderr = g.out, g.out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func goEnv(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
