// Package pcitest has a sysfs with PCI functions that are bound and unbound as the
// kernel does it, and that can be told to fail or to kill whoever changes it.
package pcitest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/pci"
)

// ErrKilled is what a change answers that was to be the last one, and all after it.
var ErrKilled = errors.New("pcitest: killed")

// Sysfs is the fake. It is safe for concurrent use.
type Sysfs struct {
	mu        sync.Mutex
	functions map[string]*function
	drivers   map[string]bool
	refuses   map[string]bool
	files     map[string]string
	note      func()

	writes int
	killAt int
	after  bool
	killed bool
}

type function struct {
	class, driver, override, group string
}

var _ pci.FS = (*Sysfs)(nil)

// New returns a sysfs with the drivers nvme, vfio-pci and uio_pci_generic, 2 GiB of
// free huge pages and four CPUs.
func New() *Sysfs {
	return &Sysfs{
		functions: map[string]*function{}, drivers: map[string]bool{pci.NVMe: true, pci.VFIO: true, pci.UIO: true}, refuses: map[string]bool{},
		files: map[string]string{
			"kernel/mm/hugepages/hugepages-2048kB/free_hugepages":    "1024\n",
			"kernel/mm/hugepages/hugepages-1048576kB/free_hugepages": "0\n",
			"devices/system/cpu/online":                              "0-3\n",
		},
	}
}

// Add puts a function in: its class such as "0x010802", its driver and the number of
// its IOMMU group, "" for none.
func (s *Sysfs) Add(address, class, driver, group string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.functions[address] = &function{class: class, driver: driver, group: group}
}

// Unload takes a driver away.
func (s *Sysfs) Unload(driver string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.drivers, driver)
}

// Refuse makes the driver bind nothing any more, or again.
func (s *Sysfs) Refuse(driver string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses[driver] = on
}

// Set replaces a file's content.
func (s *Sysfs) Set(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = text
}

// Driver is the driver of a function.
func (s *Sysfs) Driver(address string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.functions[address]; f != nil {
		return f.driver
	}
	return ""
}

// Reboot binds all functions to nvme again: an override does not outlive the kernel.
func (s *Sysfs) Reboot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		f.driver, f.override = pci.NVMe, ""
	}
}

// Observe calls do at every change.
func (s *Sysfs) Observe(do func()) { s.note = do }

// KillAt makes the n-th change from now the last one: it is made only if after.
func (s *Sysfs) KillAt(n int, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killAt, s.after = s.writes+n, after
}

// Killed tells whether that change came.
func (s *Sysfs) Killed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed
}

// Revive forgets the kill.
func (s *Sysfs) Revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killAt, s.killed = 0, false
}

// ReadFile implements pci.FS.
func (s *Sysfs) ReadFile(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, attr := s.function(name); f != nil && attr == "class" {
		return []byte(f.class + "\n"), nil
	}
	if text, ok := s.files[name]; ok {
		return []byte(text), nil
	}
	return nil, missing(name)
}

// Readlink implements pci.FS.
func (s *Sysfs) Readlink(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f, attr := s.function(name); {
	case f != nil && attr == "driver" && f.driver != "":
		return "../../../bus/pci/drivers/" + f.driver, nil
	case f != nil && attr == "iommu_group" && f.group != "":
		return "../../../kernel/iommu_groups/" + f.group, nil
	}
	return "", missing(name)
}

// ReadDir implements pci.FS.
func (s *Sysfs) ReadDir(name string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	if driver, ok := strings.CutPrefix(name, "bus/pci/drivers/"); ok {
		if !s.drivers[driver] {
			return nil, missing(name)
		}
		return []string{"bind", "unbind"}, nil
	}
	for address, f := range s.functions {
		if name == path.Join("kernel/iommu_groups", f.group, "devices") {
			out = append(out, address)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(s.files)) {
		if rest, ok := strings.CutPrefix(file, name+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			out = append(out, first)
		}
	}
	if out == nil {
		return nil, missing(name)
	}
	slices.Sort(out)
	return out, nil
}

// WriteFile implements pci.FS.
func (s *Sysfs) WriteFile(name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		return ErrKilled
	}
	s.writes++
	if last := s.writes == s.killAt; last {
		s.killed = true
		if s.after {
			_ = s.write(name, strings.TrimSpace(string(data)))
		}
		return ErrKilled
	}
	if s.note != nil {
		s.note()
	}
	return s.write(name, strings.TrimSpace(string(data)))
}

func (s *Sysfs) write(name, text string) error {
	if name == "bus/pci/drivers_probe" {
		f := s.functions[text]
		if f == nil {
			return &fs.PathError{Op: "write", Path: name, Err: errors.New("invalid argument")}
		}
		want := f.override
		if want == "" {
			want = pci.NVMe
		}
		if f.driver == "" && s.drivers[want] && !s.refuses[want] {
			f.driver = want
		}
		return nil // the kernel does not tell that no driver took it
	}
	switch f, attr := s.function(name); {
	case f != nil && attr == "driver_override":
		f.override = text
		return nil
	case f != nil && attr == "driver/unbind" && f.driver != "":
		if s.functions[text] != f {
			return &fs.PathError{Op: "write", Path: name, Err: errors.New("no such device")}
		}
		f.driver = ""
		return nil
	}
	return missing(name)
}

// function returns the function that a path names, and its attribute.
func (s *Sysfs) function(name string) (*function, string) {
	rest, ok := strings.CutPrefix(name, "bus/pci/devices/")
	if !ok {
		return nil, ""
	}
	address, attr, _ := strings.Cut(rest, "/")
	return s.functions[address], attr
}

func missing(name string) error {
	return fmt.Errorf("pcitest: %w", &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist})
}
