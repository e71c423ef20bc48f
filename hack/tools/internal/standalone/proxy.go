package standalone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// publish writes every module of the tree into a module proxy (the file layout
// of "go help goproxy") at the version that it is developed towards.
func publish(tree *repo.Tree, proxy string) error {
	for _, m := range tree.Modules {
		if err := publishModule(filepath.Join(tree.Root, m.Dir), m, proxy); err != nil {
			return fmt.Errorf("publish %s %s: %w", m.Path, m.Version, err)
		}
	}
	return nil
}

func publishModule(source string, m repo.Module, proxy string) (err error) {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	goMod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": info, m.Version + ".mod": goMod,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(dir, m.Version+".zip"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return zip.CreateFromDir(out, module.Version{Path: m.Path, Version: m.Version}, source)
}

// forget removes earlier copies of our unreleased versions from the module
// cache, which trusts that a version never changes.
func forget(ctx context.Context, tree *repo.Tree) error {
	cache, err := goEnv(ctx, "GOMODCACHE")
	if err != nil {
		return err
	}
	for _, m := range tree.Modules {
		escaped, err := module.EscapePath(m.Path)
		if err != nil {
			return err
		}
		extracted := filepath.Join(cache, filepath.FromSlash(escaped)+"@"+m.Version)
		if err := makeWritable(extracted); err != nil {
			return err
		}
		download := filepath.Join(cache, "cache", "download", filepath.FromSlash(escaped))
		if err := errors.Join(os.RemoveAll(extracted), os.RemoveAll(download)); err != nil {
			return err
		}
	}
	return nil
}

// makeWritable undoes the module cache's write protection of folders.
func makeWritable(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o755)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
