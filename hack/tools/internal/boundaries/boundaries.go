// Package boundaries checks the rules by which the modules of this repository
// stay separate products (design contract, §2).
package boundaries

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// mayImport lists, for each published module, the siblings it may import.
var mayImport = map[string][]string{
	"modules/api":     {},
	"modules/nvmeof":  {},
	"modules/manager": {"modules/api"},
	"modules/agent":   {"modules/api", "modules/nvmeof"},
	"modules/csi":     {"modules/api"},
}

// forbidden lists import path prefixes that a module must not reach for.
var forbidden = map[string][]string{
	"modules/nvmeof": {"k8s.io/", "sigs.k8s.io/", "go.opentelemetry.io/otel/sdk"},
}

// onlyImports lists, for modules that keep their dependencies few, all import
// path prefixes outside the standard library that they may use.
var onlyImports = map[string][]string{
	"modules/api": {"k8s.io/apimachinery/", "k8s.io/api/"},
}

// Check reports every crossing in the tree.
func Check(tree *repo.Tree) error {
	var problems []error
	for _, m := range tree.Modules {
		problems = append(problems, checkModFile(tree, m)...)
		imports, err := importsOf(filepath.Join(tree.Root, m.Dir))
		if err != nil {
			return err
		}
		for file, paths := range imports {
			for _, path := range paths {
				if err := checkImport(m.Dir, path); err != nil {
					problems = append(problems, fmt.Errorf("%s: %w", filepath.Join(m.Dir, file), err))
				}
			}
		}
	}
	return errors.Join(problems...)
}

// checkImport tells why a file of the module in dir may not import path.
func checkImport(dir, path string) error {
	if rest, ours := strings.CutPrefix(path, repo.ModulePrefix); ours {
		if rest == dir || strings.HasPrefix(rest, dir+"/") {
			return nil
		}
		for _, sibling := range mayImport[dir] {
			if rest == sibling || strings.HasPrefix(rest, sibling+"/") {
				return nil
			}
		}
		return fmt.Errorf("%s must not import %s: of this repository it may import %v", dir, path, mayImport[dir])
	}
	for _, prefix := range forbidden[dir] {
		if strings.HasPrefix(path, prefix) {
			return fmt.Errorf("%s must not import %s: nothing below %s", dir, path, prefix)
		}
	}
	if allowed, limited := onlyImports[dir]; limited && !isStandard(path) && !hasAnyPrefix(path, allowed) {
		return fmt.Errorf("%s must not import %s: besides the standard library only %v", dir, path, allowed)
	}
	return nil
}

// checkModFile checks that siblings are required at the version they are
// developed towards, and that nothing is replaced.
func checkModFile(tree *repo.Tree, m repo.Module) []error {
	var problems []error
	for _, r := range m.File.Replace {
		problems = append(problems, fmt.Errorf("%s/go.mod: replace %s: a module with a replace line cannot be installed by its version", m.Dir, r.Old.Path))
	}
	for _, r := range m.File.Require {
		rest, ours := strings.CutPrefix(r.Mod.Path, repo.ModulePrefix)
		if !ours {
			continue
		}
		sibling, known := tree.Module(rest)
		switch {
		case !known:
			problems = append(problems, fmt.Errorf("%s/go.mod: requires %s, which is not published", m.Dir, r.Mod.Path))
		case sibling.Version != r.Mod.Version:
			problems = append(problems, fmt.Errorf("%s/go.mod: requires %s %s, versions.yaml says %s", m.Dir, r.Mod.Path, r.Mod.Version, sibling.Version))
		}
	}
	return problems
}

// importsOf lists the imports of each Go file below dir, nested modules and
// test data left out.
func importsOf(dir string) (map[string][]string, error) {
	imports := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			value, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			imports[name] = append(imports[name], value)
		}
		return nil
	})
	return imports, err
}

func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func hasAnyPrefix(path string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}
