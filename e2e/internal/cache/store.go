package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tempPrefix marks directories of builds that did not finish.
const tempPrefix = ".building-"

// lockRetry is how often a waiting process looks whether another one has
// released the lock of an entry.
const lockRetry = 200 * time.Millisecond

// Store is a directory of entries, <root>/<name>/<key>.
type Store struct {
	root string
}

// NewStore returns the store below root, which is created when first used.
func NewStore(root string) Store { return Store{root: root} }

// Root returns the directory of the store.
func (s Store) Root() string { return s.root }

// Path returns where the entry is, or would be.
func (s Store) Path(name, key string) string { return filepath.Join(s.root, name, key) }

// Has says whether the entry is complete.
func (s Store) Has(name, key string) bool {
	info, err := os.Stat(s.Path(name, key))
	return err == nil && info.IsDir()
}

// Build fills an empty directory with the content of an entry.
type Build func(ctx context.Context, dir string) error

// Ensure returns the directory of the entry and whether it was there already;
// if not, build makes it. At most one process builds one name at a time, and
// one that waited takes what the other has built.
func (s Store) Ensure(ctx context.Context, name, key string, build Build) (path string, hit bool, err error) {
	path = s.Path(name, key)
	if s.touch(path) {
		return path, true, nil
	}
	parent := filepath.Join(s.root, name)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", false, fmt.Errorf("cache entry %s: %w", name, err)
	}
	unlock, err := lock(ctx, filepath.Join(parent, ".lock"))
	if err != nil {
		return "", false, fmt.Errorf("cache entry %s: %w", name, err)
	}
	defer unlock()
	if s.touch(path) {
		return path, true, nil
	}
	if err := removeUnfinished(parent); err != nil {
		return "", false, fmt.Errorf("cache entry %s: %w", name, err)
	}
	temp, err := os.MkdirTemp(parent, tempPrefix)
	if err != nil {
		return "", false, fmt.Errorf("cache entry %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, discard(temp)) }()
	if err := os.Chmod(temp, 0o755); err != nil {
		return "", false, fmt.Errorf("cache entry %s: %w", name, err)
	}
	if err := build(ctx, temp); err != nil {
		return "", false, err
	}
	if err := os.Rename(temp, path); err != nil {
		return "", false, fmt.Errorf("cache entry %s: %w", name, err)
	}
	return path, false, nil
}

// Prune removes all but the most recently used entries of a name.
func (s Store) Prune(name string, keep int) error {
	parent := filepath.Join(s.root, name)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fmt.Errorf("prune cache entry %s: %w", name, err)
	}
	infos := make([]fs.FileInfo, 0, len(entries))
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.IsDir() && !strings.HasPrefix(info.Name(), ".") {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	for _, info := range infos[min(keep, len(infos)):] {
		if err := os.RemoveAll(filepath.Join(parent, info.Name())); err != nil {
			return fmt.Errorf("prune cache entry %s: %w", name, err)
		}
	}
	return nil
}

// touch marks a complete entry as used now; false means there is none.
func (s Store) touch(path string) bool {
	now := time.Now()
	return os.Chtimes(path, now, now) == nil
}

// removeUnfinished deletes what killed builds left behind. The caller holds the
// lock, so none of them is alive.
func removeUnfinished(parent string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), tempPrefix) {
			if err := discard(filepath.Join(parent, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// lock takes an exclusive lock that the kernel drops when the process dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockRetry)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("wait for the lock %s held by another run: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}
