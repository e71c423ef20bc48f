// Package pci gives NVMe functions to programs and back to the kernel, through sysfs:
// with driver_override a function is bound to exactly the driver that was named, and
// no other function is (Linux, Documentation/ABI/testing/sysfs-bus-pci).
package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Drivers.
const (
	// NVMe is the kernel's driver of NVMe drives.
	NVMe = "nvme"
	// VFIO gives a function to a program behind an IOMMU.
	VFIO = "vfio-pci"
	// UIO gives it without one: the program, and the drive, reach all memory.
	UIO = "uio_pci_generic"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNoDriver: the driver is not loaded.
	ErrNoDriver = errors.New("driver is not loaded")
	// ErrShared: the function's IOMMU group has functions of others.
	ErrShared = errors.New("IOMMU group is shared")
	// ErrNotBound: the kernel did not bind the function as it was told.
	ErrNotBound = errors.New("function was not bound")
)

// FS is sysfs. Paths are relative to its root.
type FS interface {
	ReadFile(name string) ([]byte, error)
	WriteFile(name string, data []byte) error
	Readlink(name string) (string, error)
	// ReadDir returns the names in a folder.
	ReadDir(name string) ([]string, error)
}

// Bus is the PCI bus of this node. It keeps nothing. Two changes of one function must
// not be made at once.
type Bus struct{ sys FS }

// New returns the bus that this sysfs shows.
func New(sys FS) *Bus { return &Bus{sys: sys} }

// Address is the grammar of PCI addresses as the kernel writes them.
var Address = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

func device(address string, elem ...string) string {
	return path.Join(append([]string{"bus/pci/devices", address}, elem...)...)
}

// Driver returns the driver that the function is bound to; "" is none.
func (b *Bus) Driver(address string) (string, error) {
	if !Address.MatchString(address) {
		return "", fmt.Errorf("PCI address %q: must be like 0000:3b:00.0", address)
	}
	link, err := b.sys.Readlink(device(address, "driver"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := b.sys.ReadFile(device(address, "class")); err != nil {
			return "", fmt.Errorf("PCI function %s: %w", address, err)
		}
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("driver of PCI function %s: %w", address, err)
	}
	return path.Base(link), nil
}

// ForPrograms returns the driver by which programs can have the function: VFIO where
// the function is behind an IOMMU, UIO where there is none. It answers ErrShared if
// others are in the function's IOMMU group: whoever has one of a group can reach
// all of it, so the kernel gives it away as a whole. Bridges do not count.
func (b *Bus) ForPrograms(address string) (string, error) {
	link, err := b.sys.Readlink(device(address, "iommu_group"))
	if errors.Is(err, fs.ErrNotExist) {
		return UIO, b.loaded(UIO)
	}
	if err != nil {
		return "", fmt.Errorf("IOMMU group of PCI function %s: %w", address, err)
	}
	group := path.Base(link)
	members, err := b.sys.ReadDir(path.Join("kernel/iommu_groups", group, "devices"))
	if err != nil {
		return "", fmt.Errorf("IOMMU group %s of PCI function %s: %w", group, address, err)
	}
	var others []string
	for _, m := range members {
		if m == address {
			continue
		}
		if class, err := b.sys.ReadFile(device(m, "class")); err != nil || !bridge(string(class)) {
			others = append(others, m)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		return "", fmt.Errorf("%w: group %s of PCI function %s has %s too", ErrShared, group, address, strings.Join(others, ", "))
	}
	return VFIO, b.loaded(VFIO)
}

// bridge tells whether a class is that of a PCI bridge, which has no data of its own.
func bridge(class string) bool { return strings.HasPrefix(strings.TrimSpace(class), "0x0604") }

func (b *Bus) loaded(driver string) error {
	if _, err := b.sys.ReadDir(path.Join("bus/pci/drivers", driver)); err != nil {
		return fmt.Errorf("%w: %s: load the kernel module %s on the node, or start with --load-modules", ErrNoDriver, driver, driver)
	}
	return nil
}

// Bind binds the function to the driver, whatever it is bound to now, and reads back
// that it is. Every step may be the last one before a crash: the next call goes on.
func (b *Bus) Bind(address, driver string) error {
	now, err := b.Driver(address)
	if err != nil {
		return err
	}
	if err := b.loaded(driver); err != nil {
		return err
	}
	override := driver
	if driver == NVMe {
		override = "" // the drive's own driver needs no override
	}
	if err := b.write(device(address, "driver_override"), override+"\n"); err != nil {
		return err
	}
	if now == driver {
		return nil
	}
	if now != "" {
		if err := b.write(device(address, "driver", "unbind"), address); err != nil {
			return err
		}
	}
	if err := b.write("bus/pci/drivers_probe", address); err != nil {
		return err
	}
	if now, err = b.Driver(address); err == nil && now != driver {
		err = fmt.Errorf("%w: PCI function %s has driver %q, not %q", ErrNotBound, address, now, driver)
	}
	return err
}

func (b *Bus) write(name, text string) error {
	if err := b.sys.WriteFile(name, []byte(text)); err != nil {
		return fmt.Errorf("write %q to %s: %w", strings.TrimSpace(text), name, err)
	}
	return nil
}

// FreeHugePages is how many bytes the node's free huge pages have, of all sizes.
func (b *Bus) FreeHugePages() (int64, error) {
	sizes, err := b.sys.ReadDir("kernel/mm/hugepages")
	if err != nil {
		return 0, fmt.Errorf("read huge pages: %w", err)
	}
	var sum int64
	for _, name := range sizes {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(name, "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		text, err := b.sys.ReadFile(path.Join("kernel/mm/hugepages", name, "free_hugepages"))
		if err != nil {
			return 0, fmt.Errorf("read huge pages of %d KiB: %w", kib, err)
		}
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("huge pages of %d KiB: %q is not a number", kib, text)
		}
		sum += n * kib << 10
	}
	return sum, nil
}

// OnlineCPUs are the numbers of the CPUs that are online.
func (b *Bus) OnlineCPUs() (map[int]bool, error) {
	text, err := b.sys.ReadFile("devices/system/cpu/online")
	if err != nil {
		return nil, fmt.Errorf("read which CPUs are online: %w", err)
	}
	out := map[int]bool{}
	for _, part := range strings.Split(strings.TrimSpace(string(text)), ",") {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(low)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(high)
		}
		if err != nil {
			return nil, fmt.Errorf("CPUs that are online: %q is not a list of numbers", text)
		}
		for n := first; n <= last; n++ {
			out[n] = true
		}
	}
	return out, nil
}
