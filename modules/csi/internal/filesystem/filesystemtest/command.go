package filesystemtest

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"golang.org/x/sys/unix"
)

// Run implements command.Runner for filesystem.Programs.
func (h *Host) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.ran = append(h.ran, append([]string{name}, args...))
	h.mu.Unlock()
	exit := func(code int, text string) error {
		return &command.ExitError{Name: name, Args: args, Code: code, Stderr: text}
	}
	dashes := slices.Index(args, "--")
	if dashes != len(args)-2 {
		return nil, exit(64, "one operand after -- expected")
	}
	path := args[len(args)-1]
	device, found := h.Resolve(path)
	switch {
	case name == "blkid":
		if err := h.fault("blkid " + path); err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		m := h.medium(device.Medium)
		if !found || m.ReadError != nil || m.Type == "" {
			return nil, exit(2, "") // also for what cannot be read
		}
		return fmt.Appendf(nil, "DEVNAME=%s\nUUID=%s\nTYPE=%s\nUSAGE=filesystem\n", path, m.UUID, m.Type), nil
	case name == "e2fsck" || name == "xfs_repair":
		return h.check(name, path, device, exit)
	case name == "resize2fs" || name == "xfs_growfs":
		return nil, h.grow(name, path, exit)
	case (name == "mkfs.ext4" || name == "mkfs.xfs") && found:
		return nil, h.around("mkfs "+path, func() error {
			m := h.medium(device.Medium)
			if name == "mkfs.xfs" && m.Type != "" && !slices.Contains(args, "-f") {
				return exit(1, path+" appears to contain an existing filesystem ("+m.Type+")")
			}
			if m.ReadError != nil {
				return exit(1, "Input/output error")
			}
			m.Type, m.UUID, m.Size, m.Data = name[len("mkfs."):], uuidOf(args), device.Size, nil
			m.Formats++
			return nil
		})
	}
	return nil, exit(127, "not found")
}

func uuidOf(args []string) string {
	for i, a := range args {
		switch {
		case a == "-U":
			return args[i+1]
		case len(a) > 5 && a[:5] == "uuid=":
			return a[5:]
		}
	}
	return ""
}

// Open implements filesystem.Devices.
func (h *Host) Open(path string) (filesystem.Reader, error) {
	device, found := h.Resolve(path)
	if !found {
		return nil, unix.ENOENT
	}
	return &reader{h: h, device: device}, nil
}

type reader struct {
	h      *Host
	device Device
}

func (r *reader) Size() (int64, error) { return r.device.Size, nil }
func (r *reader) Close() error         { return nil }

// ReadAt shows zeros, the data, and a byte where a filesystem's magic is.
func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	m := r.h.medium(r.device.Medium)
	if m.ReadError != nil {
		return 0, m.ReadError
	}
	n := max(0, min(int64(len(p)), r.device.Size-off))
	clear(p[:n])
	put := func(at int64, b byte) {
		if at >= off && at < off+n {
			p[at-off] = b
		}
	}
	for at, b := range m.Data {
		put(at, b)
	}
	if m.Type != "" {
		put(1080, 0x53)
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}
