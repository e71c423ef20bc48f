package filesystem

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Mounter is the kernel's mount table. Its calls may hang as long as a device
// does.
type Mounter interface {
	// Mount is mount(2).
	Mount(source, target, fsType string, flags uintptr, data string) error
	// Unmount is umount2(2) of exactly target, symbolic links not followed.
	Unmount(target string) error
	// Statfs is stat(2), which a filesystem that the kernel shut down refuses,
	// and then statfs(2), which it may not.
	Statfs(path string) (unix.Statfs_t, error)
	// Mountinfo is the text of /proc/self/mountinfo.
	Mountinfo() (string, error)
	// ErrorsCount is the text of the attribute errors_count that ext4 has for the
	// device it is mounted from (Documentation/ABI/testing/sysfs-fs-ext4).
	ErrorsCount(device string) (string, error)
}

// LinuxMounter is the mount table of this process, by system call: no mount(8),
// so no fork and no option that it would interpret.
type LinuxMounter struct{}

var _ Mounter = LinuxMounter{}

// Mount implements Mounter.
func (LinuxMounter) Mount(source, target, fsType string, flags uintptr, data string) error {
	return unix.Mount(source, target, fsType, flags, data)
}

// Unmount implements Mounter. Never lazy: a filesystem that went on living
// without a name would write after the volume was handed on.
func (LinuxMounter) Unmount(target string) error {
	return unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
}

// Statfs implements Mounter.
func (LinuxMounter) Statfs(path string) (unix.Statfs_t, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return unix.Statfs_t{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return unix.Statfs_t{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return s, nil
}

// Mountinfo implements Mounter.
func (LinuxMounter) Mountinfo() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return string(text), err
}

// ErrorsCount implements Mounter.
func (LinuxMounter) ErrorsCount(device string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "errors_count"))
	return string(text), err
}
