package initiator

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/distort-io/distort/modules/csi/internal/detach"
)

// Options configure an Initiator. The zero value is the running host.
type Options struct {
	// Kernel takes the writes; nil means LinuxKernel.
	Kernel Kernel
	// Sysfs is the root of sysfs; empty means DefaultSysfs.
	Sysfs string
	// Dev is the directory of the device nodes; empty means /dev.
	Dev string
	// CPUs bounds the default number of I/O queues; 0 means this host's.
	CPUs int
	// NamespaceTimeout bounds the wait for a namespace of a live controller;
	// 0 means 10 s.
	NamespaceTimeout time.Duration
	// PathGrace is how long Connect waits for further portals once one is
	// live; 0 means 4 s, one more than the kernel gives a TCP connect.
	PathGrace time.Duration
	// MaxConnects bounds how many writes to FabricsDevice this host has in the
	// kernel at a time, each of which keeps a thread; 0 means 8.
	MaxConnects int
	// Warn is told what is not as asked of a volume that can be used: a portal
	// that is not connected while another one is, a parameter with another
	// value. nil means nobody is.
	Warn func(error)
}

// Initiator connects to subsystems and finds their namespaces. Its methods may
// be called concurrently.
type Initiator struct {
	kernel           Kernel
	sysfs            sysfs
	dev              string
	cpus             int
	namespaceTimeout time.Duration
	pathGrace        time.Duration
	warn             func(error)
	// connects are the slots for connect writes.
	connects *semaphore.Weighted
	// failFast is set once this host is going down.
	failFast atomic.Bool
	// calls holds the kernel calls in flight, abandoned ones included.
	calls detach.Group
}

// New returns an initiator.
func New(o Options) *Initiator {
	i := &Initiator{
		kernel: o.Kernel, sysfs: sysfs{root: o.Sysfs}, dev: o.Dev, cpus: o.CPUs,
		namespaceTimeout: o.NamespaceTimeout, pathGrace: o.PathGrace, warn: o.Warn,
	}
	if i.kernel == nil {
		i.kernel = LinuxKernel{}
	}
	if i.sysfs.root == "" {
		i.sysfs.root = DefaultSysfs
	}
	if i.dev == "" {
		i.dev = "/dev"
	}
	if i.cpus <= 0 {
		i.cpus = runtime.NumCPU()
	}
	if i.namespaceTimeout <= 0 {
		i.namespaceTimeout = 10 * time.Second
	}
	if i.pathGrace <= 0 {
		i.pathGrace = 4 * time.Second
	}
	if i.warn == nil {
		i.warn = func(error) {}
	}
	connects := int64(o.MaxConnects)
	if connects <= 0 {
		connects = 8
	}
	i.connects = semaphore.NewWeighted(connects)
	return i
}
