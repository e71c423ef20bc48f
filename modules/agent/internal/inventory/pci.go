package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// classNVMe is the PCI class of NVMe controllers without the programming
// interface (PCI Code and ID Assignment, base class 01h, sub-class 08h).
const classNVMe = "0x0108"

// scanFunctions looks for NVMe functions on the PCI bus that no controller came
// from: a drive without a driver is there, and a scan that does not see it must
// not call it absent.
func (r *Reader) scanFunctions(s *scan) {
	entries, err := os.ReadDir(r.sys("bus", "pci", "devices"))
	if errors.Is(err, fs.ErrNotExist) {
		return // no PCI bus
	}
	if err != nil {
		s.degrade(Problem{Source: SourcePCI, Subject: "bus/pci/devices", Message: err.Error()})
		return
	}
	for _, e := range entries {
		address := e.Name()
		dir := r.sys("bus", "pci", "devices", address)
		class, err := readAttr(dir, "class")
		if err != nil || !strings.HasPrefix(class, classNVMe) || s.controllers[address] || r.deny[address] {
			continue
		}
		f := Function{Address: address, NUMANode: -1}
		if n, err := readInt(dir, "numa_node"); err == nil && n >= 0 {
			f.NUMANode = int(n)
		}
		if driver, err := os.Readlink(filepath.Join(dir, "driver")); err == nil {
			f.Driver = filepath.Base(driver)
		}
		switch f.Driver {
		case "":
			s.unknown(f, "NVMe function has no driver; bind it to nvme, or put it on the deny-list")
		case "nvme":
			s.unknown(f, "NVMe function is bound to nvme but has no controller: it is starting or failed to start")
		default:
			// Bound to vfio-pci and its like on purpose: no block device. The drive is not
			// gone either.
			s.unknown(f, fmt.Sprintf("NVMe function is bound to %s, not to nvme; put it on the deny-list if that is meant", f.Driver))
		}
	}
}

// Denied tells whether the deny-list has the drive.
func (r *Reader) Denied(serial, address string) bool { return r.deny[serial] || r.deny[address] }

// OtherNamespaces are the kernel names of the block devices of a controller's
// namespaces besides the first one, which DISTORT does not manage.
func (r *Reader) OtherNamespaces(controller string) ([]string, error) {
	dir := r.sys("class", "nvme", controller)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list namespaces of %s: %w", controller, err)
	}
	var out []string
	for _, e := range entries {
		if (headName.MatchString(e.Name()) || pathName.MatchString(e.Name())) && !isNamespaceOne(filepath.Join(dir, e.Name())) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}
