package nvmeoftest

import (
	"slices"
	"strconv"
	"syscall"
)

// WithDebugfs makes the kernel one that was built with CONFIG_NVME_TARGET_DEBUGFS:
// the name of a removed subsystem is taken until its last controller is gone.
func WithDebugfs() Option {
	return func(k *Kernel) { k.debugfs = true }
}

// Debug is the directory in which kernels with CONFIG_NVME_TARGET_DEBUGFS show the
// controllers, as the FS of kernel.WithDebugFS: for each subsystem a directory,
// with one for each controller and in it "hostnqn". It is read-only, and shows
// controllers that were told to end until they are torn down.
func (k *Kernel) Debug() Debug { return Debug{k} }

// Debug shows the controllers of a Kernel.
type Debug struct{ k *Kernel }

func (c *connection) debugName() string { return "ctrl" + strconv.Itoa(int(c.id)) }

// ReadDir lists subsystems, or the controllers of one.
func (d Debug) ReadDir(path string) ([]string, error) {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	if err := d.k.hooks.alive(); err != nil {
		return nil, err
	}
	present := d.k.root.dirs["subsystems"]
	var names []string
	if path == "." {
		names = present.names()
	}
	for _, c := range d.k.connections {
		switch path {
		case ".":
			names = append(names, c.sub.dir.name)
		case c.sub.dir.name:
			names = append(names, c.debugName())
		}
	}
	if path != "." && len(names) == 0 && present.dirs[path] == nil {
		return nil, pathError("readdir", path, syscall.ENOENT)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// ReadFile reads the NQN of a controller's host.
func (d Debug) ReadFile(path string) ([]byte, error) {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	if err := d.k.hooks.alive(); err != nil {
		return nil, err
	}
	for _, c := range d.k.connections {
		if path == c.sub.dir.name+"/"+c.debugName()+"/hostnqn" {
			return []byte(c.host + "\n"), nil
		}
	}
	return nil, pathError("read", path, syscall.ENOENT)
}
