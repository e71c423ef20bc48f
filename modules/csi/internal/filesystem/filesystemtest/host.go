// Package filesystemtest is a host in memory: media with contents, the programs
// that probe, make, check and grow filesystems on them, and a mount table. The
// real filesystem.Host runs on it.
//
// It keeps the traps: blkid answers "nothing found" for a device that it cannot
// read, mkfs.xfs refuses what it recognises unless forced, two binds make two
// mounts.
package filesystemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
)

// Medium is what a device holds; it outlives the device.
type Medium struct {
	// Type and UUID are what blkid sees, empty for nothing.
	Type, UUID string
	// Size is that of the filesystem in bytes; 0 is the whole device.
	Size int64
	// Journal tells that it has to be replayed; Replays counts how often it was.
	Journal bool
	Replays int
	// Damage is what a check finds, empty for nothing.
	Damage string
	// Errors are those that the kernel has met in it.
	Errors int
	// Data are bytes that blkid does not know, by offset.
	Data map[int64]byte
	// ReadError is the answer to every read.
	ReadError error
	// Formats counts finished runs of mkfs.
	Formats int
}

// Device is what a device path stands for at the moment.
type Device struct {
	// Medium is the key of what the device holds.
	Medium string
	Number blockdev.Number
	// Size is in bytes.
	Size int64
}

// Host implements command.Runner, filesystem.Mounter and filesystem.Devices.
// Its methods may be called concurrently.
type Host struct {
	// Resolve finds the device at a path. It must be set.
	Resolve func(path string) (Device, bool)
	// Fault, when set, is asked before ("blkid <path>", "check <path>", "statfs
	// <path>") and before and, with " done" added, after each effect ("mkfs
	// <path>", "grow <path>", "mount <target>", "unmount <target>", "readonly <path>").
	// An error is the call's answer; before, the effect does not happen. It is
	// called without locks and may block. Set it before use.
	Fault func(op string) error

	mu     sync.Mutex
	media  map[string]*Medium
	mounts []mount
	// refusing are the devices that take no writes.
	refusing map[blockdev.Number]bool
	ran      [][]string
}

type mount struct {
	filesystem.Mount
	node blockdev.Number // of a device node that is mounted on a file
}

var (
	_ command.Runner     = (*Host)(nil)
	_ filesystem.Mounter = (*Host)(nil)
	_ filesystem.Devices = (*Host)(nil)
)

// New returns a host without devices and mounts.
func New(resolve func(path string) (Device, bool)) *Host {
	return &Host{Resolve: resolve, media: map[string]*Medium{}, refusing: map[blockdev.Number]bool{}}
}

// Options make a filesystem.Host that runs on this host.
func (h *Host) Options() filesystem.Options {
	return filesystem.Options{Runner: h, Mounter: h, Devices: h}
}

// Medium returns a copy of what the key holds.
func (h *Host) Medium(key string) Medium {
	h.mu.Lock()
	defer h.mu.Unlock()
	return *h.medium(key)
}

// Change changes what the key holds.
func (h *Host) Change(key string, change func(*Medium)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h.medium(key))
}

// medium makes a blank one of what was never seen.
func (h *Host) medium(key string) *Medium {
	if h.media[key] == nil {
		h.media[key] = &Medium{}
	}
	return h.media[key]
}

// Mounts lists the mount table.
func (h *Host) Mounts() []filesystem.Mount {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []filesystem.Mount
	for _, m := range h.mounts {
		list = append(list, m.Mount)
	}
	return list
}

// Ran lists the command lines that were run.
func (h *Host) Ran() [][]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ran)
}

func (h *Host) fault(op string) error {
	if h.Fault == nil {
		return nil
	}
	return h.Fault(op)
}

// around does an effect between its two chances to fail.
func (h *Host) around(op string, effect func() error) error {
	if err := h.fault(op); err != nil {
		return err
	}
	h.mu.Lock()
	err := effect()
	h.mu.Unlock()
	if err != nil {
		return err
	}
	return h.fault(op + " done")
}

// Mountinfo implements filesystem.Mounter.
func (h *Host) Mountinfo() (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	escape := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`)
	var b strings.Builder
	b.WriteString("1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n")
	for i, m := range h.mounts {
		fmt.Fprintf(&b, "%d 1 %s %s %s %s shared:2 - %s %s %s\n", 100+i, m.Number, escape.Replace(m.Root), escape.Replace(m.Path),
			strings.Join(m.Options, ","), m.FSType, escape.Replace(m.Source), strings.Join(m.SuperOptions, ","))
	}
	return b.String(), nil
}

// ErrorsCount implements filesystem.Mounter.
func (h *Host) ErrorsCount(device string) (string, error) {
	d, found := h.Resolve(device)
	h.mu.Lock()
	defer h.mu.Unlock()
	if !found || h.medium(d.Medium).Type != string(filesystem.Ext4) {
		return "", os.ErrNotExist
	}
	return strconv.Itoa(h.medium(d.Medium).Errors) + "\n", nil
}

// at is the index of the mount that covers path, or -1.
func (h *Host) at(path string) int {
	for i := len(h.mounts) - 1; i >= 0; i-- {
		if h.mounts[i].Path == filepath.Clean(path) {
			return i
		}
	}
	return -1
}
