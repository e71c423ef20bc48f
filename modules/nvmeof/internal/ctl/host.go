package ctl

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotBlockDevice: the path does not lead to a block device.
	ErrNotBlockDevice = errors.New("not a block device")
	// ErrDeviceBusy: this host uses the device.
	ErrDeviceBusy = errors.New("device is in use on this host")
)

// Host is Devices on this machine.
type Host struct{ proc, sys string }

// NewHost returns the devices of this machine. proc and sys are where those
// file systems are mounted.
func NewHost(proc, sys string) *Host { return &Host{proc: proc, sys: sys} }

// ID implements Devices.
func (h *Host) ID(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, fmt.Errorf("%s: %w", path, ErrNotBlockDevice)
	}
	return st.Rdev, nil
}

// Free implements Devices. The mount table and sysfs say by whom a device is
// used; an exclusive open, as mount itself does it, has the last word.
func (h *Host) Free(path string) error {
	id, err := h.ID(path)
	if err != nil {
		return err
	}
	if err := h.used(fmt.Sprintf("%d:%d", unix.Major(id), unix.Minor(id))); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s: %w: something holds it exclusively (mount, swap, LVM, md, ZFS)", path, ErrDeviceBusy)
	case err != nil:
		return fmt.Errorf("%s: open: %w", path, err)
	}
	return unix.Close(fd)
}

// used looks for users of the device "major:minor" and of its partitions.
func (h *Host) used(number string) error {
	dir := filepath.Join(h.sys, "dev/block", number)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for partitions: %w", err)
	}
	numbers, dirs := map[string]bool{number: true}, []string{dir}
	for _, e := range entries {
		part := filepath.Join(dir, e.Name())
		if _, err := os.Stat(filepath.Join(part, "partition")); err != nil {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(part, "dev"))
		if err != nil {
			return fmt.Errorf("look for partitions: %w", err)
		}
		numbers[strings.TrimSpace(string(raw))] = true
		dirs = append(dirs, part)
	}
	for _, d := range dirs {
		holders, err := os.ReadDir(filepath.Join(d, "holders"))
		if err == nil && len(holders) > 0 {
			return fmt.Errorf("%w: held by %s", ErrDeviceBusy, holders[0].Name())
		}
	}
	return h.mounted(numbers)
}

// mounted reads /proc/self/mountinfo: the third field is major:minor, the fifth
// the mount point (proc(5)).
func (h *Host) mounted(numbers map[string]bool) error {
	file, err := os.Open(filepath.Join(h.proc, "self/mountinfo"))
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && numbers[fields[2]] {
			return fmt.Errorf("%w: %s is mounted at %s", ErrDeviceBusy, fields[2], fields[4])
		}
	}
	return lines.Err()
}
