package zfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HostDevices are the zvols of this host. Dev is where its device nodes are.
type HostDevices struct{ Dev string }

var _ Devices = HostDevices{}

// node is the kernel's name of a zvol.
var node = regexp.MustCompile(`^zd[0-9]+$`)

// blkZName is ioctl BLKZNAME of ZFS, _IOR(0x12, 125, char[256]): the zvol's name.
const (
	nameBytes = 256
	blkZName  = 2<<30 | nameBytes<<16 | 0x12<<8 | 125
)

// Lookup implements Devices. It follows the link, and believes the device that it
// finds and not the link: links are late, and stay when a zvol is renamed.
func (h HostDevices) Lookup(_ context.Context, dataset string) (Device, error) {
	// udev writes a blank of a pool's name as "+".
	link := filepath.Join(h.Dev, "zvol", strings.ReplaceAll(dataset, " ", "+"))
	path, err := filepath.EvalSymlinks(link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Device{}, fmt.Errorf("%w: there is no %s", ErrNoDevice, link)
	case err != nil:
		return Device{}, fmt.Errorf("find the device of %s: %w", dataset, err)
	case !node.MatchString(filepath.Base(path)):
		return Device{}, fmt.Errorf("%s is %s, which is not a zvol", link, path)
	}
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // never O_CREAT
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENXIO):
		return Device{}, fmt.Errorf("%w: %w", ErrNoDevice, err)
	case err != nil:
		return Device{}, fmt.Errorf("open the device of %s: %w", dataset, err)
	}
	defer f.Close()
	name, size, err := describe(f)
	switch {
	case err != nil:
		return Device{}, fmt.Errorf("read %s: %w", path, err)
	case name != dataset:
		return Device{}, fmt.Errorf("%w: %s leads to %s, which is %s", ErrNoDevice, link, path, name)
	}
	return Device{Path: path, SizeBytes: size}, nil
}

// describe asks the device for its zvol's name and its size.
func describe(f *os.File) (name string, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", 0, err
	}
	if info.Mode()&(fs.ModeDevice|fs.ModeCharDevice) != fs.ModeDevice {
		return "", 0, errors.New("not a block device")
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return "", 0, err
	}
	var buf [nameBytes]byte
	var bytesOf uint64
	var errno unix.Errno
	ask := func(fd uintptr, request uintptr, to unsafe.Pointer) {
		if errno == 0 {
			_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(to))
		}
	}
	err = conn.Control(func(fd uintptr) {
		ask(fd, blkZName, unsafe.Pointer(&buf))
		ask(fd, unix.BLKGETSIZE64, unsafe.Pointer(&bytesOf))
	})
	if err != nil {
		return "", 0, err
	}
	if errno != 0 {
		return "", 0, errno
	}
	text, _, _ := bytes.Cut(buf[:], []byte{0})
	return string(text), int64(bytesOf), nil
}
