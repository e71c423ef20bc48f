package spdkfake

import (
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Server is one nvmf_tgt. All methods may be called from many goroutines.
type Server struct {
	socket   string
	listener net.Listener
	group    sync.WaitGroup

	mu      sync.Mutex
	opts    options
	process *process
	files   map[string]*medium // what survives the process
	conns   map[*conn]bool
	drives  []*pcie
	hosts   []*Host
	faults  faults
	uuids   uint64
	closed  bool
}

type options struct {
	major, minor int
	commit       string
	waitForRPC   bool
	transports   []string
	addresses    []string // nil: every address is local
	occupied     map[wireAddress]bool
	hostTimeout  time.Duration
	iobuf        pools
}

// Option changes a new Server.
type Option func(*options)

// WithVersion makes the fake behave as that release where it is known to differ.
func WithVersion(major, minor int) Option {
	return func(o *options) { o.major, o.minor = major, minor }
}

// WithWaitForRPC starts the process before its framework is initialised.
func WithWaitForRPC() Option { return func(o *options) { o.waitForRPC = true } }

// WithTransports says which transports were built in, such as "TCP". Without this
// option it is TCP and RDMA.
func WithTransports(names ...string) Option { return func(o *options) { o.transports = names } }

// WithAddresses makes only these addresses local. Without this option every address
// is.
func WithAddresses(addrs ...string) Option { return func(o *options) { o.addresses = addrs } }

// WithHostTimeout says how long nvmf_subsystem_remove_host waits for a host's queues
// from v26.05 on, unless it is told otherwise. Without this option it is 15 s.
func WithHostTimeout(d time.Duration) Option { return func(o *options) { o.hostTimeout = d } }

// WithBuffers says how many small and large I/O buffers the process starts with.
// Without this option they are 8192 and 1024.
func WithBuffers(small, large uint64) Option {
	return func(o *options) { o.iobuf = pools{small, large} }
}

// Start listens on the socket. Close ends it.
func Start(socket string, opts ...Option) (*Server, error) {
	o := options{major: 26, minor: 5, commit: "d519b163cb", transports: []string{"TCP", "RDMA"}, occupied: map[wireAddress]bool{}, hostTimeout: 15 * time.Second, iobuf: pools{8192, 1024}}
	for _, opt := range opts {
		opt(&o)
	}
	s := &Server{socket: socket, opts: o, files: map[string]*medium{}, conns: map[*conn]bool{}}
	s.process = newProcess(!o.waitForRPC, o.iobuf)
	if err := s.listen(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) listen() error {
	if err := os.Remove(s.socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		return fmt.Errorf("spdkfake: %w", err)
	}
	s.listener = l
	s.group.Go(func() { s.accept(l) })
	return nil
}

// Socket returns the path of the socket.
func (s *Server) Socket() string { return s.socket }

// Close ends the process and waits for all connections to end.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.hangUp()
	s.mu.Unlock()
	s.listener.Close()
	s.group.Wait()
}

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		c := &conn{server: s, net: nc}
		s.mu.Lock()
		dead := s.closed || s.faults.killed
		if !dead {
			s.conns[c] = true
			s.group.Go(c.serve)
		}
		s.mu.Unlock()
		if dead {
			nc.Close()
		}
	}
}

// hangUp closes all connections: nobody gets an answer any more.
func (s *Server) hangUp() {
	for c := range s.conns {
		c.gone = true
		c.net.Close()
	}
	clear(s.conns)
}

// Restart ends the process, in whatever it was doing, and starts it anew: it has
// forgotten everything but what is on files.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
}

func (s *Server) restart() {
	s.hangUp()
	for _, h := range s.hosts {
		h.ended = true
	}
	s.hosts = nil
	for _, m := range s.files {
		m.crashed()
	}
	s.process = newProcess(!s.opts.waitForRPC, s.opts.iobuf)
}

// AddFile makes a file of this size for bdev_aio_create, and grows one that exists.
func (s *Server) AddFile(name string, bytes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.files[name]; m != nil {
		m.size = bytes
		return
	}
	s.files[name] = &medium{size: bytes}
}

// Occupy makes another program of the host listen on the address.
func (s *Server) Occupy(trtype, traddr, trsvcid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.occupied[wireAddress{Transport: trtype, Family: familyOf(traddr), Address: traddr, Service: trsvcid}] = true
}

// Vacate ends Occupy.
func (s *Server) Vacate(trtype, traddr, trsvcid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opts.occupied, wireAddress{Transport: trtype, Family: familyOf(traddr), Address: traddr, Service: trsvcid})
}

// newUUID returns the next random UUID, which is not random.
func (s *Server) newUUID() string {
	s.uuids++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", 0xfa4e0000+s.uuids, s.uuids)
}

func (s *Server) atLeast(major, minor int) bool {
	return s.opts.major > major || s.opts.major == major && s.opts.minor >= minor
}
