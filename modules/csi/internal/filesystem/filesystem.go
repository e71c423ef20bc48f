package filesystem

import (
	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/detach"
)

// Programs are what a Host runs.
var Programs = []string{"blkid", "mkfs.ext4", "mkfs.xfs", "e2fsck", "xfs_repair", "resize2fs", "xfs_growfs"}

// Options configure a Host. The zero value is the running host.
type Options struct {
	// Runner runs Programs; nil means command.Exec.
	Runner command.Runner
	// Mounter mounts; nil means LinuxMounter.
	Mounter Mounter
	// Devices opens block devices; nil means LinuxDevices.
	Devices Devices
}

// Host probes, formats, checks, mounts and grows on one machine. Its methods may be called
// concurrently; calls that hang in the kernel are abandoned when their context
// ends, and joined instead of repeated.
type Host struct {
	runner  command.Runner
	mounter Mounter
	devices Devices
	calls   detach.Group
}

// New returns a host.
func New(o Options) *Host {
	h := &Host{runner: o.Runner, mounter: o.Mounter, devices: o.Devices}
	if h.runner == nil {
		h.runner = command.Exec{}
	}
	if h.mounter == nil {
		h.mounter = LinuxMounter{}
	}
	if h.devices == nil {
		h.devices = LinuxDevices{}
	}
	return h
}
