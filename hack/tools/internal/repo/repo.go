// Package repo reads what the repository says of its modules.
package repo

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"golang.org/x/mod/modfile"
	"sigs.k8s.io/yaml"
)

// ModulePrefix is the import path of the repository.
const ModulePrefix = "github.com/distort-io/distort/"

// Module is a published module.
type Module struct {
	// Dir is the folder below the repository's root, such as modules/api.
	Dir string
	// Path is the module path.
	Path string
	// Version that it is developed towards.
	Version string
	// File is its parsed go.mod.
	File *modfile.File
}

// Tree is a checkout.
type Tree struct {
	// Root is the absolute path of the checkout.
	Root string
	// Modules are the published modules, by folder.
	Modules []Module
	// Work is the parsed go.work.
	Work *modfile.WorkFile
	// WorkspaceDirs are the folders that go.work uses.
	WorkspaceDirs []string
}

// Open reads the checkout that contains dir.
func Open(dir string) (*Tree, error) {
	root, err := findRoot(dir)
	if err != nil {
		return nil, err
	}
	tree := &Tree{Root: root}
	versions := map[string]string{}
	raw, err := os.ReadFile(filepath.Join(root, "versions.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(raw, &versions); err != nil {
		return nil, fmt.Errorf("versions.yaml: %w", err)
	}
	for sub, version := range versions {
		if !strings.HasPrefix(sub, "modules/") {
			continue
		}
		file, err := readModFile(filepath.Join(root, sub))
		if err != nil {
			return nil, err
		}
		tree.Modules = append(tree.Modules, Module{Dir: sub, Path: file.Module.Mod.Path, Version: version, File: file})
	}
	sort.Slice(tree.Modules, func(i, j int) bool { return tree.Modules[i].Dir < tree.Modules[j].Dir })

	raw, err = os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork("go.work", raw, nil)
	if err != nil {
		return nil, err
	}
	tree.Work = work
	for _, use := range work.Use {
		tree.WorkspaceDirs = append(tree.WorkspaceDirs, filepath.ToSlash(filepath.Clean(use.Path)))
	}
	return tree, nil
}

// Module finds a published module by its folder.
func (t *Tree) Module(dir string) (Module, bool) {
	for _, m := range t.Modules {
		if m.Dir == filepath.ToSlash(filepath.Clean(dir)) {
			return m, true
		}
	}
	return Module{}, false
}

func readModFile(dir string) (*modfile.File, error) {
	name := filepath.Join(dir, "go.mod")
	raw, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, raw, nil)
}

func findRoot(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for at := start; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.work in %s or above", start)
		}
	}
}
