package filesystem

import (
	"os"

	"golang.org/x/sys/unix"
)

// Mounter is the kernel's mount table. Its calls may hang as long as a device
// does.
type Mounter interface {
	// Mount is mount(2).
	Mount(source, target, fsType string, flags uintptr, data string) error
	// Unmount is umount2(2) of exactly target, symbolic links not followed.
	Unmount(target string) error
	// Mountinfo is the text of /proc/self/mountinfo.
	Mountinfo() (string, error)
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

// Mountinfo implements Mounter.
func (LinuxMounter) Mountinfo() (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return string(text), err
}
