package nvmeoftest

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

// What a host sees when it connects or writes.
var (
	// ErrConnectRefused: nothing listens there.
	ErrConnectRefused = errors.New("nvmeoftest: connection refused")
	// ErrNotAllowed: the subsystem is not there, or does not allow the host.
	ErrNotAllowed = errors.New("nvmeoftest: host not allowed")
	// ErrNoNamespace: the namespace is not there or not enabled.
	ErrNoNamespace = errors.New("nvmeoftest: no such namespace")
)

// Controller is the connection of one host to one subsystem. It is as stubborn
// as the kernel's initiator: when the target ended it, each write tries to
// connect again first.
type Controller struct {
	k         *Kernel
	host      string
	subsystem string
	listener  nvmeof.Listener

	live bool
	port *port
}

// Connect connects a host, which makes the subsystem discovered.
func (k *Kernel) Connect(hostNQN, subsystemNQN string, l nvmeof.Listener) (*Controller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &Controller{k: k, host: hostNQN, subsystem: subsystemNQN, listener: l}
	if err := c.connect(); err != nil {
		return nil, err
	}
	k.controllers = append(k.controllers, c)
	return c, nil
}

func (c *Controller) connect() error {
	for _, d := range c.k.root.dirs["ports"].dirs {
		p := d.object.(*port)
		l, ok := p.listener()
		if !p.enabled || !ok || l != c.listener {
			continue
		}
		for _, target := range d.dirs["subsystems"].links {
			if target.name != c.subsystem {
				continue
			}
			s := target.object.(*subsystem)
			if !s.allows(c.host) {
				return ErrNotAllowed
			}
			s.discovered = true
			c.live, c.port = true, p
			return nil
		}
		return ErrNotAllowed
	}
	return ErrConnectRefused
}

// Live tells whether the controller is connected now.
func (c *Controller) Live() bool {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.live
}

// Write writes and waits until the write is on the medium.
func (c *Controller) Write(nsid uint32, data string) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	cmd, err := c.command(nsid, data)
	if err != nil {
		return err
	}
	for cmd.device.hung {
		c.k.wake.Wait()
	}
	cmd.device.writes = append(cmd.device.writes, cmd.write)
	return nil
}

// Submit sends a write that stays in flight until Kernel.Complete, or until the
// namespace is drained.
func (c *Controller) Submit(nsid uint32, data string) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	cmd, err := c.command(nsid, data)
	if err != nil {
		return err
	}
	c.k.inflight = append(c.k.inflight, cmd)
	return nil
}

func (c *Controller) command(nsid uint32, data string) (*command, error) {
	if !c.live {
		if err := c.connect(); err != nil {
			return nil, err
		}
	}
	ns, err := c.namespace(nsid)
	if err != nil {
		return nil, err
	}
	return &command{namespace: ns, device: ns.enabled, write: Write{Host: c.host, Data: data}}, nil
}

func (c *Controller) namespace(nsid uint32) (*namespace, error) {
	sub, err := c.k.find("subsystems/" + c.subsystem)
	if err != nil {
		return nil, ErrNotAllowed
	}
	for _, d := range sub.dirs["namespaces"].dirs {
		if ns := d.object.(*namespace); ns.nsid == nsid && ns.enabled != nil {
			return ns, nil
		}
	}
	return nil, ErrNoNamespace
}

// Size returns the size in bytes of the namespace as the host sees it.
func (c *Controller) Size(nsid uint32) (int64, error) {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if !c.live {
		return 0, ErrNotAllowed
	}
	ns, err := c.namespace(nsid)
	if err != nil {
		return 0, err
	}
	return ns.size, nil
}

// disconnect ends the chosen controllers. What they have in flight stays so.
func (k *Kernel) disconnect(chosen func(*Controller) bool) {
	for _, c := range k.controllers {
		if chosen(c) {
			c.live, c.port = false, nil
		}
	}
}

// Hosts returns the NQNs of the hosts that are connected to the subsystem now,
// sorted.
func (k *Kernel) Hosts(subsystemNQN string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var hosts []string
	for _, c := range k.controllers {
		if c.live && c.subsystem == subsystemNQN {
			hosts = append(hosts, c.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Debug is the directory in which kernels with CONFIG_NVME_TARGET_DEBUGFS show the
// controllers, as the FS of kernel.WithDebugFS: for each subsystem a directory,
// with one for each controller and in it "hostnqn". It is read-only.
func (k *Kernel) Debug() Debug { return Debug{k} }

// Debug shows the controllers of a Kernel.
type Debug struct{ k *Kernel }

// ReadDir lists subsystems, or the controllers of one.
func (d Debug) ReadDir(path string) ([]string, error) {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	if err := d.k.hooks.alive(); err != nil {
		return nil, err
	}
	if path == "." {
		return d.k.root.dirs["subsystems"].names(), nil
	}
	if d.k.root.dirs["subsystems"].dirs[path] == nil {
		return nil, pathError("readdir", path, syscall.ENOENT)
	}
	var names []string
	for i, c := range d.k.controllers {
		if c.live && c.subsystem == path {
			names = append(names, fmt.Sprintf("ctrl%d", i+1))
		}
	}
	return names, nil
}

// ReadFile reads the NQN of a controller's host.
func (d Debug) ReadFile(path string) ([]byte, error) {
	d.k.mu.Lock()
	defer d.k.mu.Unlock()
	if err := d.k.hooks.alive(); err != nil {
		return nil, err
	}
	for i, c := range d.k.controllers {
		if c.live && path == fmt.Sprintf("%s/ctrl%d/hostnqn", c.subsystem, i+1) {
			return []byte(c.host + "\n"), nil
		}
	}
	return nil, pathError("read", path, syscall.ENOENT)
}
