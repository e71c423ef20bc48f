// Package elfdeps finds the shared libraries that programs of another root file
// system need, so that an image can hold just these.
package elfdeps

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraryDirs are where the dynamic linker of Debian amd64 looks.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu/systemd", "/usr/lib"}

// maxLinks bounds the symbolic links followed for one path.
const maxLinks = 16

// Tree is a root file system in a directory.
type Tree struct{ root string }

// NewTree returns the tree in a directory.
func NewTree(root string) Tree { return Tree{root: root} }

// HostPath follows the symbolic links of a path inside the tree and returns
// where the file is on the host. Absolute links stay inside the tree.
func (t Tree) HostPath(name string) (string, error) {
	clean := filepath.Clean("/" + name)
	for range maxLinks {
		next, linked, err := t.follow(clean)
		if err != nil {
			return "", fmt.Errorf("find %s in %s: %w", name, t.root, err)
		}
		if !linked {
			return filepath.Join(t.root, clean), nil
		}
		clean = next
	}
	return "", fmt.Errorf("find %s in %s: more than %d symbolic links", name, t.root, maxLinks)
}

// follow replaces the first symbolic link of a path by its target.
func (t Tree) follow(clean string) (next string, linked bool, err error) {
	prefix := ""
	parts := strings.Split(strings.TrimPrefix(clean, "/"), "/")
	for i, part := range parts {
		prefix += "/" + part
		info, err := os.Lstat(filepath.Join(t.root, prefix))
		if err != nil {
			return "", false, err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(filepath.Join(t.root, prefix))
		if err != nil {
			return "", false, err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(prefix), target)
		}
		return filepath.Join(append([]string{target}, parts[i+1:]...)...), true, nil
	}
	return clean, false, nil
}

// Libraries returns the shared libraries and the dynamic linkers that the
// programs need, as paths in the tree under which they are looked up.
func (t Tree) Libraries(programs []string) ([]string, error) {
	var found []string
	queue := slices.Clone(programs)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		needed, err := t.needs(name)
		if err != nil {
			return nil, err
		}
		for _, library := range needed {
			if !slices.Contains(found, library) {
				found = append(found, library)
				queue = append(queue, library)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// needs returns what one file needs directly.
func (t Tree) needs(name string) ([]string, error) {
	path, err := t.HostPath(name)
	if err != nil {
		return nil, err
	}
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer file.Close()
	var list []string
	for _, program := range file.Progs {
		if program.Type != elf.PT_INTERP {
			continue
		}
		data := make([]byte, program.Filesz)
		if _, err := program.ReadAt(data, 0); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		list = append(list, strings.TrimRight(string(data), "\x00"))
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	for _, library := range libraries {
		path, err := t.find(library)
		if err != nil {
			return nil, fmt.Errorf("%s needs %s: %w", name, library, err)
		}
		list = append(list, path)
	}
	return list, nil
}

func (t Tree) find(library string) (string, error) {
	for _, dir := range libraryDirs {
		candidate := filepath.Join(dir, library)
		_, err := t.HostPath(candidate)
		if err == nil {
			return candidate, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("not in %v", libraryDirs)
}
