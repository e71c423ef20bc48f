// Package initiatortest is a kernel NVMe-oF initiator in memory: it answers
// connect options as /dev/nvme-fabrics does and shows the result as a sysfs
// tree in a directory, so that the real initiator runs on it.
//
// It keeps the traps: head names come from the subsystem's instance and never
// equal the controller's, a held head keeps its name, a second namespace with a
// UUID that is in use gets no head, host NQN and host ID are one pair.
package initiatortest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"golang.org/x/sys/unix"
)

// Volume is one subsystem with one namespace at the (imagined) target.
type Volume struct {
	NQN         string
	NSID        uint32
	UUID, NGUID string
	// Size is in bytes.
	Size         int64
	Portals      []initiator.Portal
	AllowedHosts []string
	// Disabled is a namespace that the target has switched off.
	Disabled bool
}

// Kernel implements initiator.Kernel. Its methods may be called concurrently.
type Kernel struct {
	// Fault, when set, is asked before ("connect <nqn>", "delete <controller>",
	// "open <device>", "rescan <controller>", "set <attribute> <controller>") and,
	// with " done" added, after each effect. An error is the call's answer; before, the effect does not happen.
	// It is called without locks and may block. Set it before use.
	Fault func(op string) error
	// NoMultipath is nvme_core.multipath=N: every controller has a device.
	NoMultipath bool
	// Unnoticed: the initiator hears of a new size only when it looks again.
	Unnoticed bool
	// MaxQueues is how many I/O queues targets grant, with MaxQueueSize entries
	// each; 0 means as many as are asked for.
	MaxQueues, MaxQueueSize int

	root string
	mu   sync.Mutex

	volumes     map[string]Volume
	controllers []*controller
	subsystems  map[string]*subsystem // by NQN
	hosts       map[string]string     // host ID by host NQN
	next        int                   // last instance number used
	nextMinor   uint32
	written     []string
}

type controller struct {
	instance int
	options  map[string]string
	state    string
	parameters
}

func (c *controller) name() string { return fmt.Sprintf("nvme%d", c.instance) }

func (c *controller) at(p initiator.Portal) bool {
	return c.options["transport"] == string(p.Transport) && c.options["traddr"] == p.Address.String() && c.options["trsvcid"] == fmt.Sprint(p.Port)
}

type subsystem struct {
	nqn      string
	instance int
	heads    []*head
}

type head struct {
	name       string
	number     initiator.Number
	volume     string // NQN
	controller string // with NoMultipath
	size       int64  // bytes, as the initiator knows it
	holders    int
	gone       bool
}

var _ initiator.Kernel = (*Kernel)(nil)

// New returns a kernel whose sysfs is below dir.
func New(dir string) (*Kernel, error) {
	k := &Kernel{
		root: dir, volumes: map[string]Volume{}, subsystems: map[string]*subsystem{}, hosts: map[string]string{},
	}
	for _, class := range []string{"nvme", "nvme-subsystem"} {
		if err := os.MkdirAll(filepath.Join(k.Sysfs(), "class", class), 0o755); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Sysfs is the root of the tree.
func (k *Kernel) Sysfs() string { return filepath.Join(k.root, "sys") }

// Dev is the directory in which devices have their names. No file is there.
func (k *Kernel) Dev() string { return filepath.Join(k.root, "dev") }

// Export makes the volume reachable, or changes it: connected controllers
// notice as they would by an event.
func (k *Kernel) Export(v Volume) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v.NSID == 0 {
		v.NSID = 1
	}
	k.volumes[v.NQN] = v
	return k.sync()
}

// Unexport takes the subsystem away; its controllers stay, without namespaces,
// and reconnect in vain.
func (k *Kernel) Unexport(nqn string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.volumes, nqn)
	for _, c := range k.controllers {
		if c.options["nqn"] == nqn {
			c.state = "connecting"
		}
	}
	return k.sync()
}

// SetState puts every controller of the subsystem into a state.
func (k *Kernel) SetState(nqn, state string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.controllers {
		if c.options["nqn"] == nqn {
			c.state = state
		}
	}
	return k.sync()
}

// SetPath puts the controller at one portal into a state; the empty state is a
// controller that the kernel has given up.
func (k *Kernel) SetPath(nqn string, p initiator.Portal, state string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.IndexFunc(k.controllers, func(c *controller) bool { return c.options["nqn"] == nqn && c.at(p) })
	switch {
	case at < 0:
		return unix.ENOENT
	case state == "":
		k.controllers = slices.Delete(k.controllers, at, at+1)
	default:
		k.controllers[at].state = state
	}
	return k.sync()
}

// Controllers counts the controllers of the subsystem.
func (k *Kernel) Controllers(nqn string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for _, c := range k.controllers {
		if c.options["nqn"] == nqn {
			n++
		}
	}
	return n
}

// Written lists the option texts that made a controller, in order.
func (k *Kernel) Written() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.written)
}

// Resolve tells which volume (by NQN) is behind a device path.
func (k *Kernel) Resolve(path string) (nqn string, number initiator.Number, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.head(path); h != nil {
		return h.volume, h.number, true
	}
	return "", initiator.Number{}, false
}

// Size is the size in bytes of the volume behind a device path, 0 without one.
func (k *Kernel) Size(path string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h := k.head(path); h != nil {
		return h.size
	}
	return 0
}

func (k *Kernel) head(path string) *head {
	if filepath.Dir(path) != k.Dev() {
		return nil
	}
	for _, s := range k.subsystems {
		for _, h := range s.heads {
			if !h.gone && h.name == filepath.Base(path) {
				return h
			}
		}
	}
	return nil
}

func (k *Kernel) fault(op string) error {
	if k.Fault == nil {
		return nil
	}
	return k.Fault(op)
}

// Connect implements initiator.Kernel.
func (k *Kernel) Connect(text string) (int, error) {
	options := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(field, "=")
		if !found || !slices.Contains(knownOptions, key) {
			return 0, unix.EINVAL
		}
		options[key] = value
	}
	op := "connect " + options["nqn"]
	if err := k.fault(op); err != nil {
		return 0, err
	}
	instance, err := k.connect(text, options)
	if err != nil {
		return 0, err
	}
	return instance, k.fault(op + " done")
}

var knownOptions = []string{"nqn", "transport", "traddr", "trsvcid", "hostnqn", "hostid", "ctrl_loss_tmo",
	"reconnect_delay", "nr_io_queues", "keep_alive_tmo", "fast_io_fail_tmo", "queue_size"}

func (k *Kernel) connect(text string, options map[string]string) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for nqn, id := range k.hosts {
		if (nqn == options["hostnqn"]) != (id == options["hostid"]) {
			return 0, unix.EINVAL
		}
	}
	same := func(c *controller) bool {
		for _, key := range []string{"nqn", "transport", "traddr", "trsvcid", "hostnqn"} {
			if c.options[key] != options[key] {
				return false
			}
		}
		return !strings.HasPrefix(c.state, "deleting")
	}
	if slices.ContainsFunc(k.controllers, same) {
		return 0, unix.EALREADY
	}
	asked := &controller{options: options}
	listens := func(v Volume) bool { return slices.ContainsFunc(v.Portals, asked.at) }
	anyListener := false
	for _, v := range k.volumes {
		anyListener = anyListener || listens(v)
	}
	v, exists := k.volumes[options["nqn"]]
	switch {
	case !anyListener:
		return 0, unix.ECONNREFUSED
	case !exists || !listens(v) || !slices.Contains(v.AllowedHosts, options["hostnqn"]):
		return 0, unix.EIO
	}
	k.next++
	c := &controller{instance: k.next, options: options, state: "live", parameters: k.parametersOf(options)}
	k.hosts[options["hostnqn"]] = options["hostid"]
	k.controllers = append(k.controllers, c)
	k.written = append(k.written, text)
	return c.instance, k.sync()
}

// WriteAttribute implements initiator.Kernel for delete_controller,
// rescan_controller and the connection parameters that can be changed.
func (k *Kernel) WriteAttribute(path, value string) error {
	name, attribute := filepath.Base(filepath.Dir(path)), filepath.Base(path)
	op, known := map[string]string{"delete_controller": "delete ", "rescan_controller": "rescan "}[attribute]
	if !known {
		op = "set " + attribute + " "
	} else if value != "1" {
		return unix.EINVAL
	}
	op += name
	if err := k.fault(op); err != nil {
		return err
	}
	if err := k.write(name, attribute, value); err != nil {
		return err
	}
	return k.fault(op + " done")
}

func (k *Kernel) write(name, attribute, value string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := slices.IndexFunc(k.controllers, func(c *controller) bool { return c.name() == name })
	switch {
	case at < 0:
		return unix.ENOENT
	case attribute == "delete_controller":
		k.controllers = slices.Delete(k.controllers, at, at+1)
		return k.sync()
	case attribute == "rescan_controller":
		news := false
		for _, h := range k.subsystems[k.controllers[at].options["nqn"]].heads {
			size := k.volumes[h.volume].Size
			news, h.size = news || size != h.size, size
		}
		if !news {
			return nil
		}
		return k.sync()
	}
	if err := k.controllers[at].set(attribute, value); err != nil {
		return err
	}
	return k.sync()
}

// OpenDevice implements initiator.Kernel.
func (k *Kernel) OpenDevice(path string) (io.Closer, initiator.Number, error) {
	op := "open " + filepath.Base(path)
	if err := k.fault(op); err != nil {
		return nil, initiator.Number{}, err
	}
	k.mu.Lock()
	h := k.head(path)
	if h == nil {
		k.mu.Unlock()
		return nil, initiator.Number{}, unix.ENOENT
	}
	h.holders++
	k.mu.Unlock()
	return &holder{k: k, h: h}, h.number, k.fault(op + " done")
}

type holder struct {
	k    *Kernel
	h    *head
	once sync.Once
}

func (o *holder) Close() error {
	o.once.Do(func() {
		o.k.mu.Lock()
		defer o.k.mu.Unlock()
		o.h.holders--
	})
	return nil
}
