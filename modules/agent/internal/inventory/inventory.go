// Package inventory reads what hardware a storage node has: its local NVMe
// drives, what uses them, and the addresses a target can listen on. It reads
// sysfs and procfs and never runs a program, and never reads an attribute that
// makes the kernel send a command to a drive (nuse, hwmon): such a read hangs on
// a dead controller.
//
// A scan that could not see everything says so (Complete is false): what is
// missing from it must not be taken for absent.
package inventory

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Roots are where the pseudo file systems of the host are mounted.
type Roots struct {
	Sys  string // /sys
	Proc string // /proc of the host's first process, not of a container
	Dev  string // /dev
}

// HostRoots are the mount points on an ordinary host.
func HostRoots() Roots { return Roots{Sys: "/sys", Proc: "/proc", Dev: "/dev"} }

// Config is what a Reader is made with.
type Config struct {
	Roots Roots
	// Deny lists drives that are never inventory (design.md §3), each by exact
	// serial number or by PCI address.
	Deny []string
	// TCPInterface is the network interface that NVMe/TCP targets listen on; empty
	// means TCPAddresses.
	TCPInterface string
	// TCPAddresses are the node's own addresses, used when TCPInterface is empty.
	TCPAddresses []string
	// Addresses answers which addresses an interface has; nil means the host's.
	Addresses Addresses
}

// Reader reads the inventory of one node. It is safe for concurrent use and
// keeps no state.
type Reader struct {
	roots Roots
	deny  map[string]bool
	tcp   tcpSource
	addrs Addresses
}

// New returns a Reader. It fails on a configuration that can never work, such as
// an address that is not one.
func New(c Config) (*Reader, error) {
	if c.Roots.Sys == "" || c.Roots.Proc == "" || c.Roots.Dev == "" {
		return nil, fmt.Errorf("inventory roots: sys %q, proc %q and dev %q must all be set", c.Roots.Sys, c.Roots.Proc, c.Roots.Dev)
	}
	deny := map[string]bool{}
	for _, d := range c.Deny {
		d = strings.TrimSpace(d)
		if d == "" {
			return nil, errors.New("deny-list: an entry is empty; it must be a serial number or a PCI address")
		}
		if pciAddress.MatchString(strings.ToLower(d)) {
			d = strings.ToLower(d)
		}
		deny[d] = true
	}
	tcp, err := parseTCPSource(c.TCPInterface, c.TCPAddresses)
	if err != nil {
		return nil, err
	}
	addrs := c.Addresses
	if addrs == nil {
		addrs = HostAddresses{}
	}
	return &Reader{roots: c.Roots, deny: deny, tcp: tcp, addrs: addrs}, nil
}

// Source is a part of the host that a scan reads.
type Source string

// Sources.
const (
	SourceNVMe      Source = "nvme"      // /sys/class/nvme
	SourcePCI       Source = "pci"       // /sys/bus/pci/devices
	SourceSPDK      Source = "spdk"      // SPDK's drives
	SourceRDMA      Source = "rdma"      // /sys/class/infiniband
	SourceAddresses Source = "addresses" // network interfaces
)

// Problem is something a scan could not use, in words for an administrator.
type Problem struct {
	Source Source
	// Subject is what has the problem: a controller, PCI address, RDMA port or
	// interface.
	Subject string
	// Serial is the drive's serial number where it is known.
	Serial string
	// Message says what is wrong and which rule it breaks.
	Message string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s %s: %s", p.Source, p.Subject, p.Message)
}

func (r *Reader) sys(elem ...string) string {
	return filepath.Join(append([]string{r.roots.Sys}, elem...)...)
}

func (r *Reader) proc(elem ...string) string {
	return filepath.Join(append([]string{r.roots.Proc}, elem...)...)
}
