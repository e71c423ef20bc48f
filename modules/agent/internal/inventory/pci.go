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
		driver, err := os.Readlink(filepath.Join(dir, "driver"))
		switch {
		case err != nil:
			s.degrade(Problem{Source: SourcePCI, Subject: address, Message: "NVMe function has no driver; bind it to nvme, or put it on the deny-list"})
		case filepath.Base(driver) == "nvme":
			s.degrade(Problem{Source: SourcePCI, Subject: address, Message: "NVMe function is bound to nvme but has no controller: it is starting or failed to start"})
		default:
			// Bound to vfio-pci and its like on purpose: no block device, no inventory
			// of the kernel backend. The drive is not gone either.
			s.degrade(Problem{Source: SourcePCI, Subject: address, Message: fmt.Sprintf("NVMe function is bound to %s, not to nvme; put it on the deny-list if that is meant", filepath.Base(driver))})
		}
	}
}
