package initiator

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/distort-io/distort/modules/csi/internal/blockdev"
	"golang.org/x/sys/unix"
)

// DefaultSysfs is where sysfs is mounted.
const DefaultSysfs = "/sys"

var (
	controllerName = regexp.MustCompile(`^nvme[0-9]+$`)
	// namespaceName leaves out paths (nvme1c2n1), which are hidden and have no
	// device number, and generic devices (ng1n1).
	namespaceName = regexp.MustCompile(`^nvme[0-9]+n[0-9]+$`)
)

// sysfs reads NVMe objects below a root. Objects vanish while they are read;
// one that does is simply not there.
type sysfs struct {
	root string

	mu sync.Mutex
	// nqns remembers the NQN of each subsystem instance, so that finding one
	// among many opens nothing of the others.
	nqns map[string]knownSubsystem
}

// knownSubsystem is valid for as long as the name is the same kernel object:
// sysfs never reuses an inode number in the life of a system, and the time
// covers file systems that do.
type knownSubsystem struct {
	inode   uint64
	changed int64
	nqn     string
}

// controller is one connection.
type controller struct {
	name, dir string
	transport string
	state     string
	hostNQN   string
	address   netip.Addr
	port      uint16
}

const stateLive = "live"

// String is for messages.
func (c controller) String() string {
	return fmt.Sprintf("%s %s %s", c.name, Portal{Transport(c.transport), c.address, c.port}, c.state)
}

// goingAway tells whether the controller can no longer become live: deleting,
// "deleting (no IO)" and dead. The kernel accepts a new one beside it.
func (c controller) goingAway() bool {
	return strings.HasPrefix(c.state, "deleting") || c.state == "dead"
}

func (c controller) at(p Portal) bool {
	return c.transport == string(p.Transport) && c.address == p.Address && c.port == p.Port
}

// namespace is one block device as sysfs shows it.
type namespace struct {
	identity Identity
	name     string
	number   Number
	size     int64 // bytes
	// controller is the only one that reaches the device, where the kernel was
	// started with nvme_core.multipath=N; else empty.
	controller string
}

// String is for messages.
func (n namespace) String() string {
	return fmt.Sprintf("%s nsid %d uuid %s nguid %s", n.name, n.identity.NSID, orNone(n.identity.UUID), orNone(n.identity.NGUID))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// vanished tells whether the error means that the object is gone.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO)
}

func (s *sysfs) classDir(class string) string { return filepath.Join(s.root, "class", class) }

// entries lists a directory; one that is not there is empty.
func entries(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	if vanished(err) {
		return nil, nil
	}
	return list, err
}

// attribute reads one attribute; one that is not there is empty.
func attribute(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if vanished(err) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

// subsystems lists the directories of the subsystem instances with this NQN,
// or of all when nqn is empty. An instance may have no controller any more.
func (s *sysfs) subsystems(nqn string) ([]string, error) {
	class := s.classDir("nvme-subsystem")
	list, err := entries(class)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, entry := range list {
		got, err := s.subsystemNQN(class, entry)
		if err != nil {
			return nil, err
		}
		if got != "" && (nqn == "" || got == nqn) {
			found = append(found, filepath.Join(class, entry.Name()))
		}
	}
	return found, nil
}

func (s *sysfs) subsystemNQN(class string, entry fs.DirEntry) (string, error) {
	info, err := entry.Info()
	if vanished(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	key := knownSubsystem{changed: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		key.inode = st.Ino
	}
	s.mu.Lock()
	known, found := s.nqns[entry.Name()]
	s.mu.Unlock()
	if found && known.inode == key.inode && known.changed == key.changed {
		return known.nqn, nil
	}
	if key.nqn, err = attribute(filepath.Join(class, entry.Name()), "subsysnqn"); err != nil || key.nqn == "" {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nqns == nil {
		s.nqns = map[string]knownSubsystem{}
	}
	s.nqns[entry.Name()] = key
	return key.nqn, nil
}

// controllers lists the controllers of the subsystem with this NQN, local
// PCIe ones left out. They are reached through the subsystem: a controller that
// is still being made has no subsystem to ask for.
func (s *sysfs) controllers(nqn string) ([]controller, error) {
	dirs, err := s.subsystems(nqn)
	if err != nil {
		return nil, err
	}
	var found []controller
	for _, dir := range dirs {
		list, err := controllersIn(dir)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

func controllersIn(subsystem string) ([]controller, error) {
	list, err := entries(subsystem)
	if err != nil {
		return nil, err
	}
	var found []controller
	for _, entry := range list {
		if !controllerName.MatchString(entry.Name()) {
			continue
		}
		c, err := readController(entry.Name(), filepath.Join(subsystem, entry.Name()))
		if err != nil {
			return nil, err
		}
		// Without a transport it is a link whose controller has gone.
		if c.transport != "" && c.transport != "pcie" {
			found = append(found, c)
		}
	}
	return found, nil
}

func readController(name, dir string) (controller, error) {
	c := controller{name: name, dir: dir}
	var address string
	for _, a := range []struct {
		name string
		into *string
	}{{"transport", &c.transport}, {"state", &c.state}, {"hostnqn", &c.hostNQN}, {"address", &address}} {
		text, err := attribute(dir, a.name)
		if err != nil {
			return controller{}, fmt.Errorf("controller %s: %w", name, err)
		}
		*a.into = text
	}
	for field := range strings.SplitSeq(address, ",") {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "traddr":
			c.address, _ = netip.ParseAddr(value)
		case "trsvcid":
			port, _ := strconv.ParseUint(value, 10, 16)
			c.port = uint16(port)
		}
	}
	return c, nil
}

// namespaces lists the block devices of the subsystem instance at dir: its
// heads, and with multipath=N the devices of its fabrics controllers.
func namespaces(dir string, controllers []controller) ([]namespace, error) {
	nqn, err := attribute(dir, "subsysnqn")
	if err != nil {
		return nil, err
	}
	found, err := namespacesIn(dir, nqn, "")
	if err != nil {
		return nil, err
	}
	for _, c := range controllers {
		list, err := namespacesIn(c.dir, nqn, c.name)
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}

func namespacesIn(dir, nqn, controller string) ([]namespace, error) {
	list, err := entries(dir)
	if err != nil {
		return nil, err
	}
	var found []namespace
	for _, entry := range list {
		if !namespaceName.MatchString(entry.Name()) {
			continue
		}
		n, ok, err := readNamespace(entry.Name(), filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("namespace %s: %w", entry.Name(), err)
		}
		if ok {
			n.identity.NQN, n.controller = nqn, controller
			found = append(found, n)
		}
	}
	return found, nil
}

// readNamespace is false for what has no device node.
func readNamespace(name, dir string) (namespace, bool, error) {
	n := namespace{name: name}
	var dev, size, nsid, hidden string
	for _, a := range []struct {
		name string
		into *string
	}{{"dev", &dev}, {"size", &size}, {"nsid", &nsid}, {"hidden", &hidden}, {"uuid", &n.identity.UUID}, {"nguid", &n.identity.NGUID}} {
		text, err := attribute(dir, a.name)
		if err != nil {
			return namespace{}, false, err
		}
		*a.into = text
	}
	if dev == "" || hidden == "1" || size == "" || nsid == "" {
		return namespace{}, false, nil
	}
	var err error
	if n.number, err = blockdev.ParseNumber(dev); err != nil {
		return namespace{}, false, err
	}
	const sectorSize = 512 // the unit of the attribute, whatever the device's block size
	sectors, err := strconv.ParseInt(size, 10, 64)
	if err != nil || sectors < 0 || sectors > (1<<63-1)/sectorSize {
		return namespace{}, false, fmt.Errorf("size %q is not a number of sectors", size)
	}
	n.size = sectors * sectorSize
	id, err := strconv.ParseUint(nsid, 10, 32)
	if err != nil {
		return namespace{}, false, fmt.Errorf("nsid %q is not a number", nsid)
	}
	n.identity.NSID = uint32(id)
	return n, true, nil
}
