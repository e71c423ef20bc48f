package nvmeoftest

import (
	"slices"
	"syscall"
)

type deviceKind int

const (
	blockDevice deviceKind = iota
	regularFile
	directory
)

type device struct {
	path   string
	kind   deviceKind
	size   int64
	hung   bool // writes are not answered
	mute   bool // reads are not answered either
	writes []Write
}

// Write is one write that reached a medium.
type Write struct {
	Host string // NQN of the host that wrote
	Data string
}

// command is a write that a controller has sent and the device has not
// answered.
type command struct {
	namespace *namespace
	device    *device
	write     Write
}

// AddDevice adds a block device.
func (k *Kernel) AddDevice(path string) { k.add(path, blockDevice) }

// AddFile adds a regular file, which nvmet exports as well.
func (k *Kernel) AddFile(path string) { k.add(path, regularFile) }

// AddDirectory adds a directory, which nvmet refuses.
func (k *Kernel) AddDirectory(path string) { k.add(path, directory) }

func (k *Kernel) add(path string, kind deviceKind) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.devices[path] = &device{path: path, kind: kind}
}

// Resize gives the device a size in bytes. Namespaces that are enabled go on
// serving the size that it had (measured).
func (k *Kernel) Resize(path string, size int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.devices[path]; d != nil {
		d.size = size
	}
}

// Writes returns what reached the device, in order.
func (k *Kernel) Writes(path string) []Write {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.devices[path]; d != nil {
		return slices.Clone(d.writes)
	}
	return nil
}

// Hang makes the device stop answering reads and writes: a drain with commands
// in flight, or even without, blocks until Release.
func (k *Kernel) Hang(path string) { k.set(path, func(d *device) { d.hung, d.mute = true, true }) }

// HangWrites is Hang for a device that still answers reads.
func (k *Kernel) HangWrites(path string) { k.set(path, func(d *device) { d.hung = true }) }

// Release makes a hung device answer again.
func (k *Kernel) Release(path string) { k.set(path, func(d *device) { d.hung, d.mute = false, false }) }

func (k *Kernel) set(path string, change func(*device)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if d := k.devices[path]; d != nil {
		change(d)
	}
	k.wake.Broadcast()
}

// AwaitDevice waits until the device answers a read.
func (k *Kernel) AwaitDevice(path string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for d := k.devices[path]; d != nil && d.mute; {
		k.wake.Wait()
	}
}

// Complete lets every device that is not hung answer what is in flight: those
// writes reach the medium now, whatever became of the controllers that sent
// them.
func (k *Kernel) Complete() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.land(func(c *command) bool { return !c.device.hung })
}

// land puts the chosen commands on their media.
func (k *Kernel) land(chosen func(*command) bool) {
	k.inflight = slices.DeleteFunc(k.inflight, func(c *command) bool {
		if !chosen(c) {
			return false
		}
		c.device.writes = append(c.device.writes, c.write)
		return true
	})
}

// drain disables a namespace. New commands fail from the first moment; it
// returns when the device has answered the old ones. Called with k.mu held,
// which it gives up while the device hangs.
func (k *Kernel) drain(ns *namespace) {
	if ns.enabled == nil {
		return
	}
	dev := ns.enabled
	ns.enabled = nil
	k.draining = true
	for dev.hung {
		k.wake.Wait()
	}
	k.draining = false
	k.wake.Broadcast()
	k.land(func(c *command) bool { return c.namespace == ns })
}

// open is what nvmet does when a namespace is enabled.
func (k *Kernel) open(path string) (*device, error) {
	d, ok := k.devices[path]
	switch {
	case path == "":
		return nil, syscall.EINVAL
	case !ok:
		return nil, syscall.ENOENT
	case d.kind == directory:
		return nil, syscall.EISDIR
	}
	return d, nil
}
