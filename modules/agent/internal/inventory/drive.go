package inventory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Drive is namespace 1 of a local PCIe NVMe drive. Only namespace 1 is managed;
// the others are never looked at (design.md §3). Names and numbers may differ
// after a reboot: Serial is the identity.
type Drive struct {
	Serial     string
	Model      string
	PCIAddress string // of the controller's function, lower case
	NUMANode   int    // -1 when unknown
	Controller string // nvme0, for messages
	State      string // of the controller; StateLive when it works
	Name       string // kernel name of the namespace's head, nvme0n1
	Path       string // device node of the head; empty where SPDK has the drive
	// Bdev is the name that SPDK has for namespace 1; empty where the kernel has the
	// drive. Name is the same then, and Dev is nothing.
	Bdev       string
	Dev        DevNum
	SizeBytes  int64 // of namespace 1, raw
	BlockBytes int64 // logical block size
	ReadOnly   bool
}

// StateLive is the state of a controller that serves I/O.
const StateLive = "live"

// Scan is what one look at the drives saw.
type Scan struct {
	// Drives by serial number, then PCI address. Drives that share a serial are
	// all here: see Find.
	Drives   []Drive
	Problems []Problem
	// Functions are the NVMe functions that the kernel has no controller for. Each is
	// named in Problems too, until somebody says which drive it is (Adopt).
	Functions []Function
	// Complete says that a drive which is not in Drives, and not named in
	// Problems, is not in this node.
	Complete bool
	// Hidden says that something else than Functions keeps the scan from being complete.
	Hidden bool
}

// Function is an NVMe function on the PCI bus that the kernel's nvme driver does not
// have, or has without a controller.
type Function struct {
	Address  string // lower case
	Driver   string // "" is none
	NUMANode int    // -1 when unknown
}

// Adopt returns the scan with drives that somebody else than the kernel's nvme driver
// has. Each is told by its PCI address from the functions that nobody knew.
func (s Scan) Adopt(drives []Drive) Scan {
	merged := &scan{Scan: s}
	merged.Drives, merged.Problems, merged.Functions = slices.Clone(s.Drives), nil, nil
	found := map[string]bool{}
	for _, d := range drives {
		found[d.PCIAddress] = true
		merged.Drives = append(merged.Drives, d)
	}
	for _, f := range s.Functions {
		if !found[f.Address] {
			merged.Functions = append(merged.Functions, f)
		}
	}
	for _, p := range s.Problems {
		if p.Source != SourcePCI || !found[p.Subject] {
			merged.problem(p)
		}
	}
	merged.Complete = !s.Hidden && len(merged.Functions) == 0
	merged.settle()
	return merged.Scan
}

// Errors of Scan.Find.
var (
	// ErrNotFound: no drive has the serial number; whether it is gone depends on
	// Scan.Complete.
	ErrNotFound = errors.New("drive not found")
	// ErrDuplicateSerial: more than one drive has it, so it identifies none.
	ErrDuplicateSerial = errors.New("serial number is not unique")
)

// Find returns the drive with exactly this serial number.
func (s Scan) Find(serial string) (Drive, error) {
	var found []Drive
	for _, d := range s.Drives {
		if d.Serial == serial {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		for _, p := range s.Problems {
			if p.Serial == serial {
				return Drive{}, fmt.Errorf("%w: serial %q: %s", ErrNotFound, serial, p)
			}
		}
		if !s.Complete {
			return Drive{}, fmt.Errorf("%w: serial %q, and the scan was not complete: %s", ErrNotFound, serial, joinProblems(s.Problems))
		}
		return Drive{}, fmt.Errorf("%w: serial %q", ErrNotFound, serial)
	default:
		return Drive{}, fmt.Errorf("%w: %q is the serial of the drives at PCI %s", ErrDuplicateSerial, serial, strings.Join(addressesOf(found), " and "))
	}
}

func joinProblems(ps []Problem) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = p.String()
	}
	return strings.Join(out, "; ")
}

func addressesOf(drives []Drive) []string {
	out := make([]string, len(drives))
	for i, d := range drives {
		out[i] = d.PCIAddress
	}
	return out
}

// scan collects what one look sees.
type scan struct {
	Scan
	controllers map[string]bool // PCI addresses of functions that have a controller
}

func (s *scan) problem(p Problem) { s.Problems = append(s.Problems, p) }

// degrade notes a problem that may hide a drive.
func (s *scan) degrade(p Problem) {
	s.Complete, s.Hidden = false, true
	s.problem(p)
}

// unknown notes a function that hides a drive, unless somebody else knows it.
func (s *scan) unknown(f Function, message string) {
	s.Complete = false
	s.Functions = append(s.Functions, f)
	s.problem(Problem{Source: SourcePCI, Subject: f.Address, Message: message})
}

// Scan reads all local drives. It does not fail: what could not be read is a
// Problem.
func (r *Reader) Scan(ctx context.Context) Scan {
	s := &scan{Scan: Scan{Complete: true}, controllers: map[string]bool{}}
	entries, err := os.ReadDir(r.sys("class", "nvme"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// The nvme driver is not loaded: a function on the PCI bus will tell.
	case err != nil:
		s.degrade(Problem{Source: SourceNVMe, Subject: "class/nvme", Message: err.Error()})
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			s.degrade(Problem{Source: SourceNVMe, Subject: e.Name(), Message: "scan stopped: " + ctx.Err().Error()})
			break
		}
		if controllerName.MatchString(e.Name()) {
			r.scanController(s, e.Name())
		}
	}
	r.scanFunctions(s)
	s.settle()
	return s.Scan
}

// scanController adds the drive behind one controller, or the reason why there is
// none. Controllers of a fabric are our own remote volumes and never inventory.
func (r *Reader) scanController(s *scan, name string) {
	dir := r.sys("class", "nvme", name)
	transport, err := readAttr(dir, "transport")
	if errors.Is(err, fs.ErrNotExist) && !exists(dir) {
		return // it went away while we looked
	}
	if err != nil {
		s.degrade(Problem{Source: SourceNVMe, Subject: name, Message: "transport cannot be read: " + err.Error()})
		return
	}
	if transport != "pcie" {
		return
	}
	address, err := readAttr(dir, "address")
	if err != nil || !pciAddress.MatchString(address) {
		s.degrade(Problem{Source: SourceNVMe, Subject: name, Message: fmt.Sprintf("PCI address %q cannot be used: %v", address, err)})
		return
	}
	s.controllers[address] = true
	// Absent before Linux 5.18, where a local controller can only be an I/O one.
	if kind, err := readAttr(dir, "cntrltype"); err == nil && kind != "io" && kind != "reserved" {
		return
	}
	serial, err := readAttr(dir, "serial")
	if err != nil || !validSerial(serial) {
		s.degrade(Problem{Source: SourceNVMe, Subject: name + " at PCI " + address,
			Message: fmt.Sprintf("serial number %q cannot be used: it must be 1 to 20 printable ASCII characters (%v)", serial, err)})
		return
	}
	if r.deny[serial] || r.deny[address] {
		return
	}
	d := Drive{Serial: serial, PCIAddress: address, NUMANode: -1, Controller: name, State: "unknown"}
	d.Model, _ = readAttr(dir, "model")
	if state, err := readAttr(dir, "state"); err == nil {
		d.State = state
	}
	if n, err := readInt(dir, "numa_node"); err == nil && n >= 0 {
		d.NUMANode = int(n)
	}
	subject := name + " at PCI " + address
	if err := r.readNamespace(dir, &d); err != nil {
		s.problem(Problem{Source: SourceNVMe, Subject: subject, Serial: serial, Message: err.Error()})
		return
	}
	if d.State != StateLive {
		s.problem(Problem{Source: SourceNVMe, Subject: subject, Serial: serial, Message: fmt.Sprintf("controller is %q, not live", d.State)})
	}
	s.Drives = append(s.Drives, d)
}

// settle sorts the drives, folds the controllers of one dual-ported drive into
// one, and reports serial numbers that are not unique (fault DI1).
func (s *scan) settle() {
	slices.SortFunc(s.Drives, func(a, b Drive) int {
		if c := strings.Compare(a.Serial, b.Serial); c != 0 {
			return c
		}
		return strings.Compare(a.PCIAddress, b.PCIAddress)
	})
	s.Drives = slices.CompactFunc(s.Drives, func(a, b Drive) bool {
		return a.Serial == b.Serial && a.Dev == b.Dev && a.Bdev == b.Bdev
	})
	for i := 0; i < len(s.Drives); {
		j := i + 1
		for j < len(s.Drives) && s.Drives[j].Serial == s.Drives[i].Serial {
			j++
		}
		if same := s.Drives[i:j]; len(same) > 1 {
			s.problem(Problem{Source: SourceNVMe, Subject: strings.Join(addressesOf(same), " and "), Serial: same[0].Serial,
				Message: fmt.Sprintf("these drives report the same serial number %q, so it identifies none of them; all are refused", same[0].Serial)})
		}
		i = j
	}
	slices.SortFunc(s.Problems, func(a, b Problem) int { return strings.Compare(a.String(), b.String()) })
	s.Problems = slices.Compact(s.Problems)
}

// validSerial is the grammar of NVMe Base 2.0, figure 275, SN: ASCII, at most 20
// bytes. Padding has been cut off already.
func validSerial(s string) bool {
	if len(s) == 0 || len(s) > 20 {
		return false
	}
	for _, c := range []byte(s) {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
