package nvmeoftest

import (
	"net/netip"
	"sync"

	"github.com/distort-io/distort/modules/nvmeof"
)

// Kernel is a model of nvmet's configfs. All methods may be called from many
// goroutines. The zero value is not usable; see NewKernel.
type Kernel struct {
	mu   sync.Mutex
	wake *sync.Cond // something that a blocked effect waits for has changed

	root       *dir
	devices    map[string]*device
	addresses  map[netip.Addr]bool // nil: every address is local
	transports map[nvmeof.Transport]bool
	rdmaDevice bool
	occupied   map[nvmeof.Listener]bool

	connections  []*connection
	lastID       uint16
	holdTeardown bool
	debugfs      bool
	inflight     []*command
	draining     bool // one effect is inside a drain and holds the configuration
	uuids        int

	hooks hooks
}

// Option changes a new Kernel.
type Option func(*Kernel)

// WithDevices adds block devices at these paths.
func WithDevices(paths ...string) Option {
	return func(k *Kernel) {
		for _, p := range paths {
			k.devices[p] = &device{path: p, kind: blockDevice}
		}
	}
}

// WithAddresses makes only these addresses local. Without this option every
// address is.
func WithAddresses(addrs ...netip.Addr) Option {
	return func(k *Kernel) {
		k.addresses = map[netip.Addr]bool{}
		for _, a := range addrs {
			k.addresses[a] = true
		}
	}
}

// WithTransports says which transport modules can be loaded. Without this
// option it is both.
func WithTransports(transports ...nvmeof.Transport) Option {
	return func(k *Kernel) {
		k.transports = map[nvmeof.Transport]bool{}
		for _, t := range transports {
			k.transports[t] = true
		}
	}
}

// WithoutRDMADevice takes the RDMA device away: linking an rdma port answers
// ENODEV.
func WithoutRDMADevice() Option {
	return func(k *Kernel) { k.rdmaDevice = false }
}

// NewKernel returns a kernel with nvmet loaded and nothing configured.
func NewKernel(opts ...Option) *Kernel {
	k := &Kernel{
		devices:    map[string]*device{},
		transports: map[nvmeof.Transport]bool{nvmeof.TCP: true, nvmeof.RDMA: true},
		rdmaDevice: true,
		occupied:   map[nvmeof.Listener]bool{},
	}
	k.wake = sync.NewCond(&k.mu)
	k.root = k.newRoot()
	for _, o := range opts {
		o(k)
	}
	return k
}

// Vacate ends what Occupy began.
func (k *Kernel) Vacate(l nvmeof.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.occupied, l)
}

// Occupy makes another program of the host listen on the address, so that
// linking a port with it answers EADDRINUSE.
func (k *Kernel) Occupy(l nvmeof.Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.occupied[l] = true
}
