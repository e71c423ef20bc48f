package filesystem

import (
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"golang.org/x/sys/unix"
)

// Devices opens block devices.
type Devices interface {
	// Open opens for reading past the page cache. ReadAt is called with whole
	// MiB at multiples of 4 KiB.
	Open(path string) (Reader, error)
	// OpenExclusive claims the device as a mount does, and fails with EBUSY when
	// it is claimed already. Until the Closer is closed it cannot be mounted.
	OpenExclusive(path string) (io.Closer, error)
	// SetReadOnly lets the kernel refuse writes to the device, or take them again
	// (BLKROSET), of every program and filesystem of this host.
	SetReadOnly(path string, readOnly bool) error
	// Number is the number of the block device node at path; symbolic links are
	// not followed.
	Number(path string) (blockdev.Number, error)
	// FilesystemSize is the size in bytes of the filesystem on a device, which is
	// mounted at mountpoint.
	FilesystemSize(t Type, device, mountpoint string) (int64, error)
}

// Reader is an open block device.
type Reader interface {
	io.ReaderAt
	io.Closer
	// Size is in bytes.
	Size() (int64, error)
}

// LinuxDevices are the devices of the running host.
type LinuxDevices struct{}

var _ Devices = LinuxDevices{}

// Open implements Devices. O_DIRECT: what is judged is the medium, not what
// this host once read from another device of that number.
func (LinuxDevices) Open(path string) (Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	return directReader{f}, nil
}

// OpenExclusive implements Devices.
func (LinuxDevices) OpenExclusive(path string) (io.Closer, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_EXCL|unix.O_NOFOLLOW, 0)
}

// SetReadOnly implements Devices.
func (LinuxDevices) SetReadOnly(path string, readOnly bool) (err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	value := 0
	if readOnly {
		value = 1
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.BLKROSET, value); err != nil {
		return &os.PathError{Op: "BLKROSET", Path: path, Err: err}
	}
	return nil
}

// Number implements Devices.
func (LinuxDevices) Number(path string) (blockdev.Number, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return blockdev.Number{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return blockdev.Number{}, fmt.Errorf("%s is not a block device", path)
	}
	return blockdev.Number{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}, nil
}

type directReader struct{ *os.File }

func (d directReader) Size() (int64, error) { return d.Seek(0, io.SeekEnd) }

const (
	window    = 1 << 20 // bytes read at each place
	alignment = 4096    // of O_DIRECT buffers and offsets
)

// alignedBuffer returns a window that O_DIRECT accepts.
func alignedBuffer() []byte {
	b := make([]byte, window+alignment)
	skip := int(-uintptr(unsafe.Pointer(&b[0])) & (alignment - 1))
	return b[skip : skip+window : skip+window]
}

// firstNonZero reads the first, middle and last MiB and returns the offset of
// the first byte that is not zero, or -1. Every byte must be readable.
func firstNonZero(devices Devices, path string) (at int64, err error) {
	r, err := devices.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size, err := r.Size()
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", path, err)
	}
	if size < window || size%512 != 0 {
		return 0, fmt.Errorf("%s has %d bytes, want at least %d", path, size, window)
	}
	last := (size - window) &^ (alignment - 1)
	buffer := alignedBuffer()
	for _, offset := range []int64{0, (last / 2) &^ (alignment - 1), last} {
		if n, err := r.ReadAt(buffer, offset); n < len(buffer) {
			return 0, fmt.Errorf("read %s at byte %d: %w", path, offset, errors.Join(err, io.ErrUnexpectedEOF))
		}
		for i, b := range buffer {
			if b != 0 {
				return offset + int64(i), nil
			}
		}
	}
	return -1, nil
}
