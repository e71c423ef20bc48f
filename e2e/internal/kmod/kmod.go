// Package kmod finds kernel modules and what they depend on, from the lists
// that depmod has made (modules.dep(5), modules.builtin).
package kmod

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Index knows the modules of one kernel.
type Index struct {
	paths   map[string]string
	depends map[string][]string
	builtin map[string]bool
}

// Load reads the lists in dir, which is lib/modules/<release> of some root.
func Load(dir string) (*Index, error) {
	dep, err := os.Open(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return nil, fmt.Errorf("kernel modules: %w", err)
	}
	defer dep.Close()
	builtin, err := os.Open(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("kernel modules: %w", err)
	}
	defer builtin.Close()
	return Parse(dep, builtin)
}

// Parse reads the two lists.
func Parse(dep, builtin io.Reader) (*Index, error) {
	index := &Index{paths: map[string]string{}, depends: map[string][]string{}, builtin: map[string]bool{}}
	scanner := bufio.NewScanner(dep)
	for scanner.Scan() {
		file, needs, ok := strings.Cut(scanner.Text(), ":")
		if !ok {
			return nil, fmt.Errorf("kernel modules: line %q of modules.dep has no colon", scanner.Text())
		}
		name := moduleName(file)
		index.paths[name], index.depends[name] = file, strings.Fields(needs)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("kernel modules: %w", err)
	}
	scanner = bufio.NewScanner(builtin)
	for scanner.Scan() {
		index.builtin[moduleName(scanner.Text())] = true
	}
	return index, scanner.Err()
}

// Closure returns the files of the named modules and of all they depend on,
// relative to the modules' directory, each after what it depends on. Modules
// that are built into the kernel have no file; unknown ones are an error.
func (i *Index) Closure(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		name = canonical(name)
		file, ok := i.paths[name]
		if !ok {
			if i.builtin[name] {
				continue
			}
			return nil, fmt.Errorf("kernel has no module %q", name)
		}
		// modules.dep lists a module's dependencies so that the last is to be
		// loaded first.
		for _, need := range slices.Backward(i.depends[name]) {
			if !slices.Contains(files, need) {
				files = append(files, need)
			}
		}
		if !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files, nil
}

// moduleName returns the name of the module in a file, however compressed.
func moduleName(file string) string {
	base := path.Base(file)
	if at := strings.Index(base, ".ko"); at >= 0 {
		base = base[:at]
	}
	return canonical(base)
}

// canonical writes names with underscores, as the kernel does.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }
