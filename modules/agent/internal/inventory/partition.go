package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Partition is a partition of a drive as the kernel knows it, which may differ
// from the table on the medium.
type Partition struct {
	Number     int
	Name       string // nvme0n1p1
	Path       string // device node
	Dev        DevNum
	StartBytes int64
	SizeBytes  int64
}

// Partitions returns the kernel's partitions of the block device with this
// kernel name, by number.
func (r *Reader) Partitions(device string) ([]Partition, error) {
	if !blockName.MatchString(device) {
		return nil, fmt.Errorf("block device name %q: must match %s", device, blockName)
	}
	dir := r.sys("block", device)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list partitions of %s: %w", device, err)
	}
	var out []Partition
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), device) {
			continue
		}
		p, err := r.readPartition(dir, e.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // not a partition, or gone while we looked
		}
		if err != nil {
			return nil, fmt.Errorf("read partition %s: %w", e.Name(), err)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Partition) int { return a.Number - b.Number })
	return out, nil
}

func (r *Reader) readPartition(dir, name string) (Partition, error) {
	number, err := readInt(dir, name, "partition")
	if err != nil {
		return Partition{}, err
	}
	start, err := readInt(dir, name, "start")
	if err != nil {
		return Partition{}, err
	}
	size, err := readInt(dir, name, "size")
	if err != nil {
		return Partition{}, err
	}
	dev, err := readDevNum(dir, name, "dev")
	if err != nil {
		return Partition{}, err
	}
	return Partition{
		Number: int(number), Name: name, Path: filepath.Join(r.roots.Dev, name), Dev: dev,
		StartBytes: start * SectorBytes, SizeBytes: size * SectorBytes,
	}, nil
}
