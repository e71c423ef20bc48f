package inventory

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// readNamespace fills in what the block device of namespace 1 says. dir is the
// controller's.
func (r *Reader) readNamespace(dir string, d *Drive) error {
	head, err := findHead(dir)
	if err != nil {
		return err
	}
	d.Name = filepath.Base(head)
	d.Path = filepath.Join(r.roots.Dev, d.Name)
	if d.Dev, err = readDevNum(head, "dev"); err != nil {
		return fmt.Errorf("namespace 1 (%s): %w", d.Name, err)
	}
	sectors, err := readInt(head, "size")
	if err != nil {
		return fmt.Errorf("namespace 1 (%s): %w", d.Name, err)
	}
	if sectors <= 0 {
		return fmt.Errorf("namespace 1 (%s) has size 0", d.Name)
	}
	d.SizeBytes = sectors * SectorBytes
	d.BlockBytes = SectorBytes
	if n, err := readInt(head, "queue", "logical_block_size"); err == nil {
		d.BlockBytes = n
	}
	ro, _ := readInt(head, "ro")
	d.ReadOnly = ro != 0
	return nil
}

// findHead returns the sysfs directory of the block device with NSID 1. A drive
// without multipath has it below its controller. One with several ports has only
// hidden path nodes there; its head is below the subsystem. The number in a
// head's name is an instance, not the NSID.
func findHead(controller string) (string, error) {
	entries, err := os.ReadDir(controller)
	if err != nil {
		return "", fmt.Errorf("namespaces cannot be listed: %w", err)
	}
	var hasPath bool
	for _, e := range entries {
		dir := filepath.Join(controller, e.Name())
		switch {
		case headName.MatchString(e.Name()) && isNamespaceOne(dir) && !hidden(dir):
			return dir, nil
		case pathName.MatchString(e.Name()) && isNamespaceOne(dir):
			hasPath = true
		}
	}
	if !hasPath {
		return "", errors.New("the controller has no namespace 1; only namespace 1 is managed")
	}
	subsystem, err := findSubsystem(controller)
	if err != nil {
		return "", err
	}
	entries, err = os.ReadDir(subsystem)
	if err != nil {
		return "", fmt.Errorf("heads cannot be listed: %w", err)
	}
	for _, e := range entries {
		dir := filepath.Join(subsystem, e.Name())
		if headName.MatchString(e.Name()) && isNamespaceOne(dir) && !hidden(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("namespace 1 has a path but no usable device in %s", filepath.Base(subsystem))
}

// findSubsystem returns the directory of the subsystem that links to the
// controller.
func findSubsystem(controller string) (string, error) {
	name := filepath.Base(controller)
	class := filepath.Join(filepath.Dir(filepath.Dir(controller)), "nvme-subsystem")
	entries, err := os.ReadDir(class)
	if err != nil {
		return "", fmt.Errorf("subsystems cannot be listed: %w", err)
	}
	for _, e := range entries {
		if exists(filepath.Join(class, e.Name(), name)) {
			return filepath.Join(class, e.Name()), nil
		}
	}
	return "", fmt.Errorf("no subsystem has controller %s", name)
}

func isNamespaceOne(dir string) bool {
	n, err := readInt(dir, "nsid")
	return err == nil && n == 1
}

// hidden tells the node of one path, which cannot be opened, from a device.
func hidden(dir string) bool {
	n, err := readInt(dir, "hidden")
	return err == nil && n != 0
}
