package nvmeoftest

import (
	"errors"
	"slices"

	"github.com/distort-io/distort/modules/nvmeof"
)

// What a host sees when it connects or writes.
var (
	// ErrConnectRefused: nothing listens there.
	ErrConnectRefused = errors.New("nvmeoftest: connection refused")
	// ErrNotAllowed: the subsystem is not there, or does not allow the host.
	ErrNotAllowed = errors.New("nvmeoftest: host not allowed")
	// ErrGaveUp: the host was turned away with ErrNotAllowed when it tried to
	// reconnect, and has removed its controller.
	ErrGaveUp = errors.New("nvmeoftest: the host has given the subsystem up")
	// ErrNoNamespace: the namespace is not there or not enabled.
	ErrNoNamespace = errors.New("nvmeoftest: no such namespace")
)

// Controller is a host's side of its connection to one subsystem. It is as
// stubborn as the kernel's initiator: when the target ended it, each write tries
// to connect again first. Where nothing listens it will try again; where something
// does that does not know the subsystem or the host, it gives up for ever
// (measured on Linux 6.12: "Removing controller (16770)", with ctrl_loss_tmo -1).
type Controller struct {
	k         *Kernel
	host      string
	subsystem string
	listener  nvmeof.Listener
	conn      *connection
	gaveUp    bool
}

// connection is the target's side: what nvmet calls a controller. It belongs to
// the subsystem object that it was made for, for as long as it exists.
type connection struct {
	id   uint16
	host string
	sub  *subsystem
	port *port
	// ended: the target has told it to end. Until it is torn down, what its socket
	// holds is still carried out (measured: writes landed after attr_qid_max).
	ended  bool
	socket []packet
}

// packet is a write that has reached the target's socket and was not looked at.
type packet struct {
	nsid uint32
	data string
}

// Connect connects a host, which makes the subsystem discovered.
func (k *Kernel) Connect(hostNQN, subsystemNQN string, l nvmeof.Listener) (*Controller, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &Controller{k: k, host: hostNQN, subsystem: subsystemNQN, listener: l}
	if err := c.connect(); err != nil {
		return nil, err
	}
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
			c.k.lastID++
			c.conn = &connection{id: c.k.lastID, host: c.host, sub: s, port: p}
			c.k.connections = append(c.k.connections, c.conn)
			return nil
		}
		return ErrNotAllowed
	}
	return ErrConnectRefused
}

// Disconnect ends the connection from the host's side.
func (k *Kernel) Disconnect(c *Controller) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.connections = slices.DeleteFunc(k.connections, func(x *connection) bool { return x == c.conn })
	c.conn = nil
}

// Live tells whether the controller is connected now.
func (c *Controller) Live() bool {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.live()
}

func (c *Controller) live() bool { return c.conn != nil && !c.conn.ended }

// Reconnect is what the host does by itself, now and then, while it is not
// connected.
func (c *Controller) Reconnect() error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	return c.ensureLive()
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

// Submit sends a write that stays in flight to the device until
// Kernel.Complete, or until the namespace is drained.
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

// Send puts a write into the target's socket, where it stays until
// Kernel.Receive or until the connection is torn down.
func (c *Controller) Send(nsid uint32, data string) error {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if err := c.ensureLive(); err != nil {
		return err
	}
	c.conn.socket = append(c.conn.socket, packet{nsid, data})
	return nil
}

func (c *Controller) ensureLive() error {
	switch {
	case c.live():
		return nil
	case c.gaveUp:
		return ErrGaveUp
	}
	err := c.connect()
	c.gaveUp = errors.Is(err, ErrNotAllowed)
	return err
}

func (c *Controller) command(nsid uint32, data string) (*command, error) {
	if err := c.ensureLive(); err != nil {
		return nil, err
	}
	return c.conn.command(packet{nsid, data})
}

func (c *connection) command(p packet) (*command, error) {
	ns, err := c.namespace(p.nsid)
	if err != nil {
		return nil, err
	}
	return &command{namespace: ns, device: ns.enabled, write: Write{Host: c.host, Data: p.data}}, nil
}

// namespace looks a namespace up in the connection's own subsystem.
func (c *connection) namespace(nsid uint32) (*namespace, error) {
	for _, d := range c.sub.dir.dirs["namespaces"].dirs {
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
	if !c.live() {
		return 0, ErrNotAllowed
	}
	ns, err := c.conn.namespace(nsid)
	if err != nil {
		return 0, err
	}
	return ns.size, nil
}

// Receive lets the target take what a host has in its sockets, over connections
// that live and over those that were ended but not torn down. What finds its
// namespace is in flight then; the rest is answered with an error.
func (k *Kernel) Receive(hostNQN string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.connections {
		if c.host != hostNQN {
			continue
		}
		for _, p := range c.socket {
			if cmd, err := c.command(p); err == nil {
				k.inflight = append(k.inflight, cmd)
			}
		}
		c.socket = nil
	}
}

// disconnect ends the chosen connections. What they have in flight stays so.
func (k *Kernel) disconnect(chosen func(*connection) bool) {
	for _, c := range k.connections {
		if chosen(c) {
			c.ended = true
		}
	}
	if !k.holdTeardown {
		k.tearDown()
	}
}

// HoldTeardown makes connections that the target ends stay, with what is in
// their sockets, until Teardown. Without it they go at once.
func (k *Kernel) HoldTeardown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holdTeardown = true
}

// Teardown tears down the connections that were ended.
func (k *Kernel) Teardown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tearDown()
}

func (k *Kernel) tearDown() {
	k.connections = slices.DeleteFunc(k.connections, func(c *connection) bool { return c.ended })
}

// Hosts returns the NQNs of the hosts that are connected to a subsystem of that
// name now, sorted; also over connections that were ended but not torn down.
func (k *Kernel) Hosts(subsystemNQN string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var hosts []string
	for _, c := range k.connections {
		if c.sub.dir.name == subsystemNQN {
			hosts = append(hosts, c.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Writers returns the NQNs of the hosts that can put something on the device
// now, sorted: those with a connection that finds an enabled namespace on it,
// and those with a write in flight.
func (k *Kernel) Writers(device string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var hosts []string
	for _, c := range k.connections {
		for _, d := range c.sub.dir.dirs["namespaces"].dirs {
			if ns := d.object.(*namespace); ns.enabled != nil && ns.enabled.path == device {
				hosts = append(hosts, c.host)
			}
		}
	}
	for _, c := range k.inflight {
		if c.device.path == device {
			hosts = append(hosts, c.write.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
