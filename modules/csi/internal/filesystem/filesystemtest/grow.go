package filesystemtest

import (
	"io"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
)

// check is e2fsck -n and xfs_repair -n.
func (h *Host) check(name, path string, device Device, exit func(int, string) error) ([]byte, error) {
	if err := h.fault("check " + path); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.medium(device.Medium); m.Damage != "" {
		code := map[string]int{"e2fsck": 4, "xfs_repair": 1}[name]
		return []byte(m.Damage + "\n"), exit(code, "")
	}
	return nil, nil
}

// grow is resize2fs of a mounted device and xfs_growfs of a mount point.
func (h *Host) grow(name, operand string, exit func(int, string) error) error {
	return h.around("grow "+operand, func() error {
		at := slices.IndexFunc(h.mounts, func(m mount) bool {
			return name == "resize2fs" && m.Source == operand || name == "xfs_growfs" && m.Path == operand
		})
		if at < 0 {
			return exit(1, operand+" is not mounted")
		}
		device, found := h.Resolve(h.mounts[at].Source)
		if !found || h.mounts[at].FSType != map[string]string{"resize2fs": "ext4", "xfs_growfs": "xfs"}[name] {
			return exit(1, "Input/output error")
		}
		h.medium(device.Medium).Size = device.Size
		return nil
	})
}

// FilesystemSize implements filesystem.Devices.
func (h *Host) FilesystemSize(t filesystem.Type, path, mountpoint string) (int64, error) {
	device, found := h.Resolve(path)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.medium(device.Medium)
	switch {
	case !found || m.ReadError != nil:
		return 0, unix.EIO
	case m.Type != string(t) || h.at(mountpoint) < 0:
		return 0, unix.ENOTTY
	case m.Size == 0:
		return device.Size, nil
	}
	return m.Size, nil
}

// OpenExclusive implements filesystem.Devices.
func (h *Host) OpenExclusive(path string) (io.Closer, error) {
	device, found := h.Resolve(path)
	if !found {
		return nil, unix.ENOENT
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.ContainsFunc(h.mounts, func(m mount) bool { return m.Number == device.Number }) {
		return nil, unix.EBUSY
	}
	return io.NopCloser(nil), nil
}

// Statfs implements filesystem.Mounter: a quarter of every filesystem is used,
// and ten of its thousand inodes.
func (h *Host) Statfs(path string) (unix.Statfs_t, error) {
	if err := h.fault("statfs " + path); err != nil {
		return unix.Statfs_t{}, err
	}
	h.mu.Lock()
	i := h.at(path)
	var source string
	if i >= 0 {
		source = h.mounts[i].Source
	}
	h.mu.Unlock()
	device, found := h.Resolve(source)
	if !found {
		return unix.Statfs_t{}, unix.EIO
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.medium(device.Medium)
	if m.ReadError != nil {
		return unix.Statfs_t{}, m.ReadError
	}
	size := m.Size
	if size == 0 {
		size = device.Size
	}
	blocks := uint64(size / 4096)
	return unix.Statfs_t{
		Bsize: 4096, Frsize: 4096, Blocks: blocks, Bfree: blocks - blocks/4, Bavail: blocks - blocks/4, Files: 1000, Ffree: 990,
	}, nil
}

// Remount changes the options of the filesystem that is mounted at path, as
// ext4 does to itself after an error.
func (h *Host) Remount(path string, superOptions ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := h.at(path); i >= 0 {
		number := h.mounts[i].Number
		for j := range h.mounts {
			if h.mounts[j].Number == number {
				h.mounts[j].SuperOptions = superOptions
			}
		}
	}
}
