package inventory

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Grammars of kernel names. A namespace head is nvme0n1; nvme0c1n1 is the hidden
// node of one path to it and must never be taken for a drive (fault DI2). Block
// device names are checked because they become parts of paths and arguments.
var (
	controllerName = regexp.MustCompile(`^nvme[0-9]{1,6}$`)
	headName       = regexp.MustCompile(`^nvme[0-9]{1,6}n[0-9]{1,6}$`)
	pathName       = regexp.MustCompile(`^nvme[0-9]{1,6}c[0-9]{1,6}n[0-9]{1,6}$`)
	blockName      = regexp.MustCompile(`^[a-z][a-z0-9]{0,30}$`)
	pciAddress     = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
)

// SectorBytes is the unit of sizes and offsets in sysfs, whatever the drive's
// logical block size (Linux, Documentation/ABI/stable/sysfs-block).
const SectorBytes = 512

// readAttr returns a sysfs attribute without the padding and newline at its end.
func readAttr(elem ...string) (string, error) {
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return "", err
	}
	return strings.TrimRight(string(b), " \t\r\n\x00"), nil
}

func readInt(elem ...string) (int64, error) {
	s, err := readAttr(elem...)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("attribute %s: %q is not a number", filepath.Join(elem...), s)
	}
	return n, nil
}

// DevNum is the number of a device node.
type DevNum struct {
	Major, Minor uint32
}

func (d DevNum) String() string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// ParseDevNum reads MAJOR:MINOR as in sysfs and mountinfo.
func ParseDevNum(s string) (DevNum, error) {
	major, minor, ok := strings.Cut(s, ":")
	a, errA := strconv.ParseUint(major, 10, 32)
	b, errB := strconv.ParseUint(minor, 10, 32)
	if !ok || errA != nil || errB != nil {
		return DevNum{}, fmt.Errorf("device number %q: must be MAJOR:MINOR", s)
	}
	return DevNum{uint32(a), uint32(b)}, nil
}

func readDevNum(elem ...string) (DevNum, error) {
	s, err := readAttr(elem...)
	if err != nil {
		return DevNum{}, err
	}
	return ParseDevNum(s)
}
