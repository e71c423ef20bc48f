package filesystem

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// genericFlags are the options that the kernel takes as bits.
var genericFlags = map[string]uintptr{
	"rw": 0, "ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC,
	"noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME, "lazytime": unix.MS_LAZYTIME, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC,
}

// dataOptions are the options that a filesystem takes as text. The list is
// closed: a value from a StorageClass becomes kernel input (known fault SE4).
var dataOptions = map[Type][]string{
	Ext4: {"discard", "nodiscard", "errors=remount-ro", "errors=continue", "commit=5", "commit=15", "commit=30", "commit=60"},
	XFS:  {"discard", "nodiscard", "inode64", "largeio", "logbsize=32k", "logbsize=64k", "logbsize=128k", "logbsize=256k"},
}

// MountOptions are checked options.
type MountOptions struct {
	flags uintptr
	data  []string
}

// ParseMountOptions checks options against what is allowed for the filesystem.
// Each element is one option.
func ParseMountOptions(t Type, options []string) (MountOptions, error) {
	var parsed MountOptions
	for _, option := range options {
		if flag, known := genericFlags[option]; known {
			parsed.flags |= flag
			continue
		}
		if !slices.Contains(dataOptions[t], option) {
			return MountOptions{}, fmt.Errorf("%w: mount option %q is not allowed for %s", ErrInvalid, option, t)
		}
		if !slices.Contains(parsed.data, option) {
			parsed.data = append(parsed.data, option)
		}
	}
	return parsed, nil
}

// ReadOnly returns the options with ro.
func (o MountOptions) ReadOnly() MountOptions {
	o.flags |= unix.MS_RDONLY
	return o
}

// Writable returns the options without ro.
func (o MountOptions) Writable() MountOptions {
	o.flags &^= unix.MS_RDONLY
	return o
}

// text is what the kernel gets for a filesystem. XFS refuses to mount a clone
// beside its source, whose UUID it has (known fault SN1); that the device is the
// volume's was proved by its namespace.
func (o MountOptions) text(t Type) string {
	data := o.data
	if t == XFS {
		data = append([]string{"nouuid"}, data...)
	}
	return strings.Join(data, ",")
}

// perMountFlags are what a bind mount must keep of the mount that it copies;
// the remount that makes it read-only would clear them.
func perMountFlags(options []string) uintptr {
	var flags uintptr
	for _, option := range options {
		switch option {
		case "ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime":
			flags |= genericFlags[option]
		}
	}
	return flags
}
