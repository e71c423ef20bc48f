package filesystem

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"golang.org/x/sys/unix"
)

// Mounts lists every mount.
func (h *Host) Mounts() ([]Mount, error) {
	text, err := h.mounter.Mountinfo()
	if err != nil {
		return nil, fmt.Errorf("read mount table: %w", err)
	}
	return parseMountinfo(text)
}

// MountsAt lists what is mounted at exactly this path, the covering one last.
func (h *Host) MountsAt(path string) ([]Mount, error) {
	resolved, err := resolve(path)
	if err != nil {
		return nil, err
	}
	return h.mountsAt(resolved)
}

func (h *Host) mountsAt(resolved string) ([]Mount, error) {
	all, err := h.Mounts()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(m Mount) bool { return m.Path != resolved }), nil
}

// resolve follows the links of the path's parent, as mountinfo shows real
// paths, and never looks at the path itself: on a dead filesystem that fails
// or hangs (known fault ST22).
func resolve(path string) (string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Clean(path), nil // then nothing is mounted there
	}
	if err != nil {
		return "", fmt.Errorf("resolve the parent of %s: %w", path, err)
	}
	return filepath.Join(parent, filepath.Base(path)), nil
}

// MountDevice mounts the filesystem on a device at target, an existing
// directory. When is decides that what is mounted there already is the device,
// that is success; anything else there is ErrOccupied.
func (h *Host) MountDevice(ctx context.Context, device string, is func(blockdev.Number) bool, target string, t Type, o MountOptions) error {
	resolved, err := resolve(target)
	if err != nil {
		return err
	}
	same := func(m Mount) bool { return is(m.Number) && m.Root == "/" && m.FSType == string(t) }
	mounted, err := h.only(resolved, same)
	if err != nil || mounted {
		return err
	}
	err = h.calls.Do(ctx, "mount at "+resolved, func() error {
		return h.mounter.Mount(device, resolved, string(t), o.flags, o.text(t))
	})
	if err != nil {
		return fmt.Errorf("mount %s (%s) at %s: %w", device, t, target, err)
	}
	return h.verify(resolved, same)
}

// SetReadOnly lets the kernel refuse writes to a device, or take them again. A
// filesystem with a journal to replay cannot be mounted from one that refuses
// them (EROFS), since even a mount for reading replays it.
func (h *Host) SetReadOnly(ctx context.Context, device string, readOnly bool) error {
	err := h.calls.Do(ctx, fmt.Sprintf("set %s read-only: %t", device, readOnly), func() error { return h.devices.SetReadOnly(device, readOnly) })
	if err != nil {
		return fmt.Errorf("set %s read-only: %t: %w", device, readOnly, err)
	}
	return nil
}

// only is true when exactly one mount is at the path and it is the wanted one,
// false when there is none.
func (h *Host) only(resolved string, same func(Mount) bool) (bool, error) {
	found, err := h.mountsAt(resolved)
	if err != nil || len(found) == 0 {
		return false, err
	}
	if len(found) > 1 || !same(found[0]) {
		return false, fmt.Errorf("%w: %d mounts at %s: %s", ErrOccupied, len(found), resolved, describe(found))
	}
	return true, nil
}

// verify proves after a mount that it is there once and is the wanted one.
func (h *Host) verify(resolved string, same func(Mount) bool) error {
	mounted, err := h.only(resolved, same)
	if err == nil && !mounted {
		err = fmt.Errorf("%w: nothing is at %s after the mount", ErrNotMounted, resolved)
	}
	return err
}

func describe(mounts []Mount) string {
	var texts []string
	for _, m := range mounts {
		texts = append(texts, m.String())
	}
	return strings.Join(texts, ", ")
}

// Bind mounts what is mounted at source also at target, an existing directory.
// However often it is called there is one mount (known faults BM1, BM4).
func (h *Host) Bind(ctx context.Context, source, target string, readOnly bool) error {
	from, err := h.MountsAt(source)
	if err != nil {
		return err
	}
	if len(from) != 1 {
		return fmt.Errorf("%w: %d mounts at %s, want 1: %s", ErrNotMounted, len(from), source, describe(from))
	}
	to, err := resolve(target)
	if err != nil {
		return err
	}
	same := func(m Mount) bool { return m.Number == from[0].Number && m.Root == from[0].Root }
	if err := h.bind(ctx, source, to, same); err != nil {
		return err
	}
	mounts, err := h.mountsAt(to)
	if err != nil {
		return err
	}
	last := mounts[len(mounts)-1]
	switch {
	case last.ReadOnly() == readOnly, last.ReadOnly() && from[0].ReadOnly():
		return nil
	case !readOnly:
		return fmt.Errorf("%w: %s is mounted read-only, asked for read-write", ErrOccupied, target)
	}
	// Also finishes a call that was killed between bind and remount.
	flags := unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | perMountFlags(last.Options)
	err = h.calls.Do(ctx, "mount at "+to, func() error { return h.mounter.Mount("", to, "", flags, "") })
	if err != nil {
		return fmt.Errorf("make %s read-only: %w", target, err)
	}
	return h.verify(to, func(m Mount) bool { return same(m) && m.ReadOnly() })
}

func (h *Host) bind(ctx context.Context, source, resolved string, same func(Mount) bool) error {
	mounted, err := h.only(resolved, same)
	if err != nil || mounted {
		return err
	}
	err = h.calls.Do(ctx, "mount at "+resolved, func() error {
		return h.mounter.Mount(source, resolved, "", unix.MS_BIND, "")
	})
	if err != nil {
		return fmt.Errorf("bind %s at %s: %w", source, resolved, err)
	}
	return h.verify(resolved, same)
}

// BindDevice mounts a device node on target, an existing file, and proves that
// target then is the device. However often it is called there is one mount
// (known fault BM2).
func (h *Host) BindDevice(ctx context.Context, device string, is func(blockdev.Number) bool, target string) error {
	resolved, err := resolve(target)
	if err != nil {
		return err
	}
	err = h.bind(ctx, device, resolved, func(m Mount) bool { return m.DeviceNode() == filepath.Base(device) })
	if err != nil {
		return err
	}
	number, err := h.devices.Number(resolved)
	if err != nil {
		return fmt.Errorf("look at %s: %w", target, err)
	}
	if !is(number) {
		return fmt.Errorf("%w: %s is block device %s, not %s", ErrOccupied, target, number, device)
	}
	return nil
}

// Unmount removes every mount at exactly this path. Nothing mounted is success.
// What the call answers on a dead filesystem (EIO, ESTALE, ENOTCONN) does not
// matter; what mountinfo shows afterwards does (known fault ST22).
func (h *Host) Unmount(ctx context.Context, target string) error {
	resolved, err := resolve(target)
	if err != nil {
		return err
	}
	for {
		before, err := h.mountsAt(resolved)
		if err != nil || len(before) == 0 {
			return err
		}
		failure := h.calls.Do(ctx, "unmount "+resolved, func() error { return h.mounter.Unmount(resolved) })
		after, err := h.mountsAt(resolved)
		if err != nil {
			return err
		}
		if len(after) >= len(before) {
			if failure == nil {
				failure = ErrOccupied
			}
			return fmt.Errorf("unmount %s: %w", target, failure)
		}
	}
}
