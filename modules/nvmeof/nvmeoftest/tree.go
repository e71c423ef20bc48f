package nvmeoftest

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// dir is one configfs directory. What a kind of directory does when children
// or links come and go is in its functions; nil means that the kernel has no
// such operation there (EPERM).
type dir struct {
	name   string
	parent *dir
	fixed  bool // made by the kernel together with its parent
	dirs   map[string]*dir
	attrs  map[string]attr
	links  map[string]*dir
	users  int // links that point here

	make    func(name string) (*dir, error)
	allow   func(target *dir) error
	drop    func(target *dir)
	release func()
	object  any // *subsystem, *namespace, *port or *host
}

// attr is one attribute file; a nil show or store means not readable or not
// writable.
type attr struct {
	show  func() string
	store func(value string) error
}

func newDir() *dir {
	return &dir{dirs: map[string]*dir{}, attrs: map[string]attr{}, links: map[string]*dir{}}
}

// with adds a directory that the kernel makes by itself.
func (d *dir) with(name string, child *dir) *dir {
	child.fixed = true
	d.attach(name, child)
	return d
}

func (d *dir) attach(name string, child *dir) {
	child.name, child.parent = name, d
	d.dirs[name] = child
}

func (d *dir) path() string {
	if d.parent == nil {
		return ""
	}
	return path.Join(d.parent.path(), d.name)
}

// find walks to a directory, through links too.
func (k *Kernel) find(p string) (*dir, error) {
	d := k.root
	if p == "" || p == "." {
		return d, nil
	}
	for elem := range strings.SplitSeq(p, "/") {
		if child, ok := d.dirs[elem]; ok {
			d = child
		} else if target, ok := d.links[elem]; ok {
			d = target
		} else if _, ok := d.attrs[elem]; ok {
			return nil, syscall.ENOTDIR
		} else {
			return nil, syscall.ENOENT
		}
	}
	return d, nil
}

// parentOf returns the directory in which the last element of p lives.
func (k *Kernel) parentOf(p string) (*dir, string, error) {
	d, err := k.find(path.Dir(p))
	return d, path.Base(p), err
}

func pathError(op, p string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// Mkdir makes an object as mkdir(2) does.
func (k *Kernel) Mkdir(p string) error {
	return k.effect("mkdir", p, "", func() error {
		d, name, err := k.parentOf(p)
		switch {
		case err != nil:
			return err
		case d.exists(name):
			return syscall.EEXIST
		case d.make == nil:
			return syscall.EPERM
		}
		child, err := d.make(name)
		if err != nil {
			return err
		}
		d.attach(name, child)
		return nil
	})
}

// Rmdir removes an object as rmdir(2) does.
func (k *Kernel) Rmdir(p string) error {
	return k.effect("rmdir", p, "", func() error {
		parent, name, err := k.parentOf(p)
		if err != nil {
			return err
		}
		d, ok := parent.dirs[name]
		switch {
		case !ok && parent.exists(name):
			return syscall.ENOTDIR
		case !ok:
			return syscall.ENOENT
		case d.fixed:
			return syscall.EPERM
		case d.users > 0:
			return syscall.EBUSY
		case d.occupied():
			return syscall.ENOTEMPTY
		}
		delete(parent.dirs, name)
		if d.release != nil {
			d.release()
		}
		return nil
	})
}

// occupied tells whether d holds links or objects that the kernel did not make
// together with it.
func (d *dir) occupied() bool {
	if len(d.links) > 0 {
		return true
	}
	for _, child := range d.dirs {
		if !child.fixed || child.occupied() {
			return true
		}
	}
	return false
}

func (d *dir) exists(name string) bool {
	_, isAttr := d.attrs[name]
	return isAttr || d.dirs[name] != nil || d.links[name] != nil
}

// ReadDir returns the names in a directory.
func (k *Kernel) ReadDir(p string) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.hooks.alive(); err != nil {
		return nil, err
	}
	d, err := k.find(p)
	if err != nil {
		return nil, pathError("readdir", p, err)
	}
	return d.names(), nil
}

func (d *dir) names() []string {
	var names []string
	for name := range d.dirs {
		names = append(names, name)
	}
	for name := range d.attrs {
		names = append(names, name)
	}
	for name := range d.links {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ReadFile returns an attribute, with the newline that the kernel puts.
func (k *Kernel) ReadFile(p string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.hooks.alive(); err != nil {
		return nil, err
	}
	a, err := k.attribute(p)
	if err == nil && a.show == nil {
		err = syscall.EACCES
	}
	if err != nil {
		return nil, pathError("read", p, err)
	}
	return []byte(a.show() + "\n"), nil
}

func (k *Kernel) attribute(p string) (attr, error) {
	d, name, err := k.parentOf(p)
	if err != nil {
		return attr{}, err
	}
	a, ok := d.attrs[name]
	if !ok && d.exists(name) {
		return attr{}, syscall.EISDIR
	}
	if !ok {
		return attr{}, syscall.ENOENT
	}
	return a, nil
}

// WriteFile stores an attribute. A newline at the end is fine, as in the kernel.
func (k *Kernel) WriteFile(p string, data []byte) error {
	value := strings.TrimSuffix(string(data), "\n")
	return k.effect("write", p, value, func() error {
		a, err := k.attribute(p)
		if err != nil {
			return err
		}
		if a.store == nil {
			return syscall.EACCES
		}
		return a.store(value)
	})
}

// Symlink links the object at target into link's directory.
func (k *Kernel) Symlink(target, link string) error {
	return k.effect("symlink", link, target, func() error {
		d, name, err := k.parentOf(link)
		if err != nil {
			return err
		}
		if d.allow == nil {
			return syscall.EPERM
		}
		to, err := k.find(target)
		if err != nil {
			return err
		}
		if d.exists(name) {
			return syscall.EEXIST
		}
		if err := d.allow(to); err != nil {
			return err
		}
		d.links[name] = to
		to.users++
		return nil
	})
}

// Readlink returns the relative path that the kernel shows for a link.
func (k *Kernel) Readlink(p string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.hooks.alive(); err != nil {
		return "", err
	}
	d, name, err := k.parentOf(p)
	if err != nil {
		return "", pathError("readlink", p, err)
	}
	to, ok := d.links[name]
	if !ok && d.exists(name) {
		return "", pathError("readlink", p, syscall.EINVAL)
	}
	if !ok {
		return "", pathError("readlink", p, syscall.ENOENT)
	}
	return "../../../../nvmet/" + to.path(), nil
}

// Remove removes a link as unlink(2) does.
func (k *Kernel) Remove(p string) error {
	return k.effect("unlink", p, "", func() error {
		d, name, err := k.parentOf(p)
		if err != nil {
			return err
		}
		to, ok := d.links[name]
		if !ok && d.exists(name) {
			return syscall.EPERM
		}
		if !ok {
			return syscall.ENOENT
		}
		delete(d.links, name)
		to.users--
		d.drop(to)
		return nil
	})
}
