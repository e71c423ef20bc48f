// Package blockdev reads and zeroes regions of block devices.
package blockdev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// Host works on the block devices of this host.
type Host struct{}

// chunk is how much one system call zeroes: the context is looked at in between.
const chunk = 64 << 20

// buffer is the size of one read or write.
const buffer = 1 << 20

// Number returns the device number that the node at path stands for.
func (Host) Number(path string) (inventory.DevNum, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return inventory.DevNum{}, fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return inventory.DevNum{}, fmt.Errorf("%s is not a block device", path)
	}
	return inventory.DevNum{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}, nil
}

// Head returns the first n bytes of the device, past the page cache where it can.
func (Host) Head(path string, n int) ([]byte, error) {
	f, err := open(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	buf, free, err := alignedBuffer()
	if err != nil {
		return nil, err
	}
	defer free()
	const page = 4096
	if n > page {
		return nil, fmt.Errorf("read %d bytes of %s: at most %d can be read", n, path, page)
	}
	if _, err := f.ReadAt(buf[:page], 0); err != nil {
		return nil, fmt.Errorf("read the head of %s: %w", path, err)
	}
	return append([]byte(nil), buf[:n]...), nil
}

// IsZero tells whether the length bytes from offset on read as zeros. It reads
// past the page cache where it can: what is cached for the whole drive is older
// than what was written through a partition.
func (Host) IsZero(ctx context.Context, path string, offset, length int64) (bool, error) {
	f, err := open(path, unix.O_RDONLY)
	if err != nil {
		return false, err
	}
	defer f.Close()
	buf, free, err := alignedBuffer()
	if err != nil {
		return false, err
	}
	defer free()
	for end := offset + length; offset < end; {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		b := buf[:min(int64(len(buf)), end-offset)]
		n, err := f.ReadAt(b, offset)
		if err != nil {
			return false, fmt.Errorf("read %d bytes at %d of %s: %w", len(b), offset, path, err)
		}
		for _, c := range b[:n] {
			if c != 0 {
				return false, nil
			}
		}
		offset += int64(n)
	}
	return true, nil
}

// Zero makes the length bytes from offset on read as zeros, durably. The kernel
// lets the drive do it where the drive can (BLKZEROOUT); otherwise zeros are
// written.
func (Host) Zero(ctx context.Context, path string, offset, length int64) error {
	f, err := open(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	buf, free, err := alignedBuffer()
	if err != nil {
		return err
	}
	defer free()
	for end := offset + length; offset < end; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("zero %s, %d bytes left: %w", path, end-offset, err)
		}
		n := min(chunk, end-offset)
		err := zeroOut(f, offset, n)
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) {
			n = min(buffer, end-offset)
			_, err = f.WriteAt(buf[:n], offset)
		}
		if err != nil {
			return fmt.Errorf("zero %d bytes at %d of %s: %w", n, offset, path, err)
		}
		offset += n
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush %s: %w", path, err)
	}
	return f.Close()
}

func open(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EINVAL) {
		f, err = os.OpenFile(path, flags|unix.O_CLOEXEC, 0)
	}
	return f, err
}

// zeroOut is ioctl BLKZEROOUT, which takes a pointer to start and length in bytes
// (linux/fs.h).
func zeroOut(f *os.File, offset, length int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	region := [2]uint64{uint64(offset), uint64(length)}
	var errno unix.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.BLKZEROOUT, uintptr(unsafe.Pointer(&region)))
	})
	if err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// alignedBuffer is a page-aligned buffer of zeros, as O_DIRECT needs.
func alignedBuffer() (buf []byte, free func(), err error) {
	buf, err = unix.Mmap(-1, 0, buffer, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d bytes: %w", buffer, err)
	}
	return buf, func() { _ = unix.Munmap(buf) }, nil
}
