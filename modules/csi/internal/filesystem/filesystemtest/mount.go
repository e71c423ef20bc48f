package filesystemtest

import (
	"path/filepath"
	"slices"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"golang.org/x/sys/unix"
)

// devNumber is the number of the file system that device nodes are on.
var devNumber = blockdev.Number{Major: 0, Minor: 5}

// Mount implements filesystem.Mounter.
func (h *Host) Mount(source, target, fsType string, flags uintptr, data string) error {
	device, isDevice := h.Resolve(source)
	return h.around("mount "+target, func() error {
		switch {
		case flags&unix.MS_REMOUNT != 0:
			return h.remount(target, flags)
		case flags&unix.MS_BIND != 0 && isDevice:
			h.add(target, filesystem.Mount{Number: devNumber, Root: "/" + filepath.Base(source), FSType: "devtmpfs", Source: "udev"}, flags, device.Number)
			return nil
		case flags&unix.MS_BIND != 0:
			from := h.at(source)
			if from < 0 {
				return unix.ENOENT // nothing else of the host can be bound here
			}
			copied := h.mounts[from]
			copied.Path = filepath.Clean(target)
			h.mounts = append(h.mounts, copied) // flags of a bind are ignored
			return nil
		case !isDevice:
			return unix.ENOENT
		}
		m := h.medium(device.Medium)
		switch {
		case m.ReadError != nil:
			return unix.EIO
		case m.Type != fsType:
			return unix.EINVAL
		}
		if err := h.replay(m, device.Number, flags); err != nil {
			return err
		}
		h.add(target, filesystem.Mount{Number: device.Number, Root: "/", FSType: fsType, Source: source}, flags, blockdev.Number{})
		return nil
	})
}

// replay is what ext4 and xfs do first, also when they are mounted for reading.
func (h *Host) replay(m *Medium, device blockdev.Number, flags uintptr) error {
	refuses := h.refusing[device]
	switch {
	case refuses && flags&unix.MS_RDONLY == 0:
		return unix.EACCES
	case refuses && m.Journal:
		return unix.EROFS
	case m.Journal:
		m.Journal = false
		m.Replays++
	}
	return nil
}

// SetReadOnly implements filesystem.Devices.
func (h *Host) SetReadOnly(path string, readOnly bool) error {
	device, found := h.Resolve(path)
	if !found {
		return unix.ENOENT
	}
	return h.around("readonly "+path, func() error {
		h.refusing[device.Number] = readOnly
		return nil
	})
}

// Refuses tells whether the device takes no writes.
func (h *Host) Refuses(device blockdev.Number) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refusing[device]
}

func (h *Host) add(target string, m filesystem.Mount, flags uintptr, node blockdev.Number) {
	m.Path, m.Options, m.SuperOptions = filepath.Clean(target), access(flags), access(flags)
	if flags&unix.MS_NOEXEC != 0 {
		m.Options = append(m.Options, "noexec")
	}
	h.mounts = append(h.mounts, mount{Mount: m, node: node})
}

func access(flags uintptr) []string {
	if flags&unix.MS_RDONLY != 0 {
		return []string{"ro", "relatime"}
	}
	return []string{"rw", "relatime"}
}

// remount sets the per-mount flags, as MS_REMOUNT|MS_BIND does.
func (h *Host) remount(target string, flags uintptr) error {
	i := h.at(target)
	if i < 0 {
		return unix.EINVAL
	}
	h.mounts[i].Options = access(flags)
	if flags&unix.MS_NOEXEC != 0 {
		h.mounts[i].Options = append(h.mounts[i].Options, "noexec")
	}
	return nil
}

// Unmount implements filesystem.Mounter.
func (h *Host) Unmount(target string) error {
	return h.around("unmount "+target, func() error {
		i := h.at(target)
		if i < 0 {
			return unix.EINVAL
		}
		h.mounts = slices.Delete(h.mounts, i, i+1)
		return nil
	})
}

// Number implements filesystem.Devices.
func (h *Host) Number(path string) (blockdev.Number, error) {
	if device, found := h.Resolve(path); found {
		return device.Number, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.at(path); i >= 0 && h.mounts[i].node != (blockdev.Number{}) {
		return h.mounts[i].node, nil
	}
	return blockdev.Number{}, unix.ENOTBLK
}
