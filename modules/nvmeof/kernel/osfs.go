package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OS returns the FS of a mounted configfs. root is the nvmet directory,
// normally DefaultRoot; a container that mounts it elsewhere names that place.
// Nothing is opened until it is used, so that configfs may come later.
func OS(root string) FS { return osFS(root) }

type osFS string

// resolve keeps every path beneath the root. The names in it were validated
// before; this is the second fence. Links below the nvmet directory are made by
// the kernel and point at its own objects only.
func (f osFS) resolve(op, path string) (string, error) {
	if !filepath.IsLocal(path) {
		return "", &fs.PathError{Op: op, Path: path, Err: unix.EINVAL}
	}
	return filepath.Join(string(f), path), nil
}

func (f osFS) do(op, path string, call func(full string) error) error {
	full, err := f.resolve(op, path)
	if err != nil {
		return err
	}
	for {
		err = call(full)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: full, Err: err}
	}
	return nil
}

func (f osFS) Mkdir(path string) error {
	return f.do("mkdir", path, func(full string) error { return unix.Mkdir(full, 0o755) })
}

func (f osFS) Rmdir(path string) error {
	return f.do("rmdir", path, unix.Rmdir)
}

func (f osFS) Remove(path string) error {
	return f.do("unlink", path, unix.Unlink)
}

func (f osFS) Symlink(target, link string) error {
	to, err := f.resolve("symlink", target)
	if err != nil {
		return err
	}
	return f.do("symlink", link, func(full string) error { return unix.Symlink(to, full) })
}

func (f osFS) Readlink(path string) (string, error) {
	full, err := f.resolve("readlink", path)
	if err != nil {
		return "", err
	}
	return os.Readlink(full)
}

func (f osFS) ReadDir(path string) ([]string, error) {
	full, err := f.resolve("readdir", path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(full)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (f osFS) ReadFile(path string) ([]byte, error) {
	full, err := f.resolve("read", path)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(full)
}

// WriteFile opens without O_CREAT and without O_TRUNC: a missing attribute is
// an error, never a new file. The kernel stores the value inside write(2), so
// the error of the store is the error of the write.
func (f osFS) WriteFile(path string, data []byte) error {
	full, err := f.resolve("write", path)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(full, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// AwaitDevice does not wait for a device that cannot be opened without waiting:
// such a one has nothing in flight.
func (f osFS) AwaitDevice(path string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	// A mapping is aligned as O_DIRECT wants it.
	block, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return
	}
	defer func() { _ = unix.Munmap(block) }()
	_, _ = unix.Pread(fd, block, 0)
}
