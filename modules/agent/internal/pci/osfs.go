package pci

import (
	"os"
	"path/filepath"
)

// OS is the sysfs that is mounted at this path.
func OS(root string) FS { return osFS(root) }

type osFS string

func (f osFS) path(name string) string { return filepath.Join(string(f), filepath.FromSlash(name)) }

func (f osFS) ReadFile(name string) ([]byte, error) { return os.ReadFile(f.path(name)) }

func (f osFS) Readlink(name string) (string, error) { return os.Readlink(f.path(name)) }

// WriteFile writes to a file that exists: sysfs has no others.
func (f osFS) WriteFile(name string, data []byte) error {
	file, err := os.OpenFile(f.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

func (f osFS) ReadDir(name string) ([]string, error) {
	entries, err := os.ReadDir(f.path(name))
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, err
}
