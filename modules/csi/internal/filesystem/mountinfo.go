package filesystem

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
)

// Mount is one line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type Mount struct {
	// Number is the filesystem's device.
	Number blockdev.Number
	// Root is the directory or file of the filesystem that is mounted.
	Root string
	// Path is where it is mounted.
	Path string
	// Options are those of this mount, not of the filesystem.
	Options []string
	// FSType is the filesystem's type.
	FSType string
	// Source is the device name at the time of the mount.
	Source string
	// SuperOptions are those of the filesystem.
	SuperOptions []string
}

// ReadOnly tells whether writes through this mount are refused.
func (m Mount) ReadOnly() bool {
	return slices.Contains(m.Options, "ro") || slices.Contains(m.SuperOptions, "ro")
}

// FailedReadOnly tells whether the filesystem refuses writes although it was
// mounted for them: ext4 does that to itself after an error (known fault RR7),
// and says so in its own options while those of the mount stay. Since Linux 6.15
// it says emergency_ro; from 6.12 on until then it says nothing (Host.Errors).
func (m Mount) FailedReadOnly() bool {
	return slices.Contains(m.SuperOptions, "emergency_ro") || slices.Contains(m.SuperOptions, "ro") && !slices.Contains(m.Options, "ro")
}

// DeviceNode is the name of the device node that is mounted, for example
// nvme1n1, or empty when the mount is something else.
func (m Mount) DeviceNode() string {
	if m.FSType != "devtmpfs" && m.FSType != "tmpfs" || m.Root == "/" {
		return ""
	}
	return filepath.Base(m.Root)
}

// String is for messages.
func (m Mount) String() string {
	return fmt.Sprintf("%s (%s %s, root %s) at %s", m.Source, m.FSType, m.Number, m.Root, m.Path)
}

// parseMountinfo reads the text of mountinfo, in order: of two mounts at one
// path the later covers the earlier.
func parseMountinfo(text string) ([]Mount, error) {
	var mounts []Mount
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			continue
		}
		m, err := parseMount(line)
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %q: %w", line, err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func parseMount(line string) (Mount, error) {
	front, back, found := strings.Cut(line, " - ")
	left, right := strings.Split(front, " "), strings.Split(back, " ")
	if !found || len(left) < 6 || len(right) < 3 {
		return Mount{}, fmt.Errorf("%w: too few fields", ErrInvalid)
	}
	number, err := blockdev.ParseNumber(left[2])
	if err != nil {
		return Mount{}, err
	}
	return Mount{
		Number: number, Root: unescape(left[3]), Path: unescape(left[4]), Options: strings.Split(left[5], ","),
		FSType: right[0], Source: unescape(right[1]), SuperOptions: strings.Split(right[2], ","),
	}, nil
}

// unescape undoes the kernel's octal escapes of blank, tab, newline and
// backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, ok := octal(s[i+1 : i+4]); ok {
				b.WriteByte(v)
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(digits string) (byte, bool) {
	v := 0
	for _, d := range digits {
		if d < '0' || d > '7' {
			return 0, false
		}
		v = v*8 + int(d-'0')
	}
	return byte(v), v < 256
}
