package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	dirMode  = 0o750
	fileMode = 0o640
)

// MakeDir makes the directory of a mount whose parent exists. What is mounted
// there already is left alone and not looked at.
func (h *Host) MakeDir(path string) error {
	return h.make(path, fs.FileMode.IsDir, "directory", func() error { return os.Mkdir(path, dirMode) })
}

// MakeFile makes the file on which a device node is mounted.
func (h *Host) MakeFile(path string) error {
	return h.make(path, fs.FileMode.IsRegular, "regular file", func() error {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
		if err != nil {
			return err
		}
		return f.Close()
	})
}

func (h *Host) make(path string, fits func(fs.FileMode) bool, kind string, create func() error) error {
	if mounted, err := h.MountsAt(path); err != nil || len(mounted) > 0 {
		return err
	}
	err := create()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !fits(info.Mode()) {
		return fmt.Errorf("%w: %s is not a %s", ErrOccupied, path, kind)
	}
	return nil
}

// Remove removes the directory or file of a mount that is gone. Never what is
// in it: a directory that is not empty is an error.
func (h *Host) Remove(path string) error {
	mounted, err := h.MountsAt(path)
	if err != nil {
		return err
	}
	if len(mounted) > 0 {
		return fmt.Errorf("%w: %s", ErrOccupied, describe(mounted))
	}
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
