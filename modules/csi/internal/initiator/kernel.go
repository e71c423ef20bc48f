package initiator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Kernel is everything that the initiator changes or opens. Any of its calls
// may hang for as long as a target does; the initiator runs them where a
// deadline can abandon them.
type Kernel interface {
	// Connect writes the option text to /dev/nvme-fabrics and returns the
	// number of the new controller's instance.
	Connect(options string) (instance int, err error)
	// WriteAttribute writes to the existing sysfs attribute at path.
	WriteAttribute(path, value string) error
	// OpenDevice opens a block device for reading and tells its number.
	OpenDevice(path string) (io.Closer, Number, error)
}

// FabricsDevice is where the kernel takes connect options.
const FabricsDevice = "/dev/nvme-fabrics"

// LinuxKernel is the running kernel.
type LinuxKernel struct{}

var _ Kernel = LinuxKernel{}

// Connect implements Kernel. The controller outlives the file.
func (LinuxKernel) Connect(options string) (int, error) {
	// Not os.File: its poller has no use for a device that cannot be polled.
	fd, err := unix.Open(FabricsDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", FabricsDevice, err)
	}
	defer unix.Close(fd)
	if err := writeUninterrupted(fd, options); err != nil {
		return 0, fmt.Errorf("write %s: %w", FabricsDevice, err)
	}
	buf := make([]byte, 256)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", FabricsDevice, err)
	}
	return parseInstance(string(buf[:max(n, 0)]))
}

// writeUninterrupted keeps signals from the thread: nvme-rdma waits for its
// connection interruptibly and would give up, or start over, when a signal for
// the process (a child that ended) happens to meet this thread.
func writeUninterrupted(fd int, text string) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, &before); err != nil {
		return err
	}
	_, err := unix.Write(fd, []byte(text))
	return errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil))
}

// parseInstance reads the kernel's answer, "instance=3,cntlid=1\n".
func parseInstance(answer string) (int, error) {
	for field := range strings.SplitSeq(strings.TrimSpace(answer), ",") {
		if value, found := strings.CutPrefix(field, "instance="); found {
			if n, err := strconv.ParseUint(value, 10, 31); err == nil {
				return int(n), nil
			}
		}
	}
	return 0, fmt.Errorf("%s answered %q, want instance=<number>", FabricsDevice, answer)
}

// WriteAttribute implements Kernel.
func (LinuxKernel) WriteAttribute(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// OpenDevice implements Kernel.
func (LinuxKernel) OpenDevice(path string) (io.Closer, Number, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Number{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, Number{}, errors.Join(&os.PathError{Op: "stat", Path: path, Err: err}, unix.Close(fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return nil, Number{}, errors.Join(fmt.Errorf("%s is not a block device", path), unix.Close(fd))
	}
	return fileDescriptor(fd), Number{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}, nil
}

type fileDescriptor int

func (fd fileDescriptor) Close() error { return unix.Close(int(fd)) }
