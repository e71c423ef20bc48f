package filesystem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FilesystemSize implements Devices. It asks the kernel's present state, not
// the medium, which a change reaches later: ext4 keeps its superblock in the
// page cache of the device, XFS answers a request.
func (LinuxDevices) FilesystemSize(t Type, device, mountpoint string) (int64, error) {
	if t == XFS {
		return xfsSize(mountpoint)
	}
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	block := make([]byte, superblockSize)
	_, err = f.ReadAt(block, superblockOffset)
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return ext4Size(block)
}

// Where ext4 has its superblock, and what is where in it (Linux,
// Documentation/filesystems/ext4/super.rst).
const (
	superblockOffset = 1024
	superblockSize   = 1024
	ext4Magic        = 0xef53
	ext4Has64Bit     = 0x80
)

func ext4Size(superblock []byte) (int64, error) {
	little := binary.LittleEndian
	if magic := little.Uint16(superblock[0x38:]); magic != ext4Magic {
		return 0, fmt.Errorf("ext4 superblock has magic %#x, want %#x", magic, ext4Magic)
	}
	blocks := uint64(little.Uint32(superblock[0x4:]))
	if little.Uint32(superblock[0x60:])&ext4Has64Bit != 0 {
		blocks |= uint64(little.Uint32(superblock[0x150:])) << 32
	}
	log := little.Uint32(superblock[0x18:]) // of the block size in KiB
	if log > 6 || blocks > (1<<63-1)>>(10+log) {
		return 0, fmt.Errorf("ext4 superblock has %d blocks of 2^%d KiB", blocks, log)
	}
	return int64(blocks << (10 + log)), nil
}

// xfsGeometry is struct xfs_fsop_geom_v1 of Linux, fs/xfs/libxfs/xfs_fs.h.
type xfsGeometry struct {
	BlockSize  uint32
	_          [7]uint32
	DataBlocks uint64
	_          [9]uint64
}

const xfsGetGeometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1

func xfsSize(mountpoint string) (int64, error) {
	fd, err := unix.Open(mountpoint, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: mountpoint, Err: err}
	}
	defer unix.Close(fd)
	var g xfsGeometry
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), xfsGetGeometry, uintptr(unsafe.Pointer(&g)))
	runtime.KeepAlive(&g)
	if errno != 0 {
		return 0, &os.PathError{Op: "XFS_IOC_FSGEOMETRY_V1", Path: mountpoint, Err: errno}
	}
	return int64(g.DataBlocks) * int64(g.BlockSize), nil
}
