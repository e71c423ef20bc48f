package fenceio

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// device does direct I/O to slots. One goroutine uses it.
type device struct {
	file  *os.File
	block []byte // aligned
}

func open(path string) (*device, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT|unix.O_DSYNC, 0)
	if err != nil {
		return nil, err
	}
	block, err := unix.Mmap(-1, 0, BlockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		file.Close()
		return nil, err
	}
	return &device{file: file, block: block}, nil
}

func (d *device) close() {
	_ = unix.Munmap(d.block)
	d.file.Close()
}

func (d *device) read(slot int) (Record, error) {
	if _, err := d.file.ReadAt(d.block, int64(slot)*BlockSize); err != nil {
		return "", fmt.Errorf("read slot %d: %w", slot, err)
	}
	r, err := decode(d.block)
	if err != nil {
		return "", fmt.Errorf("read slot %d: %w", slot, err)
	}
	return r, nil
}

func (d *device) write(slot int, r Record) error {
	r.encode(d.block)
	if _, err := d.file.WriteAt(d.block, int64(slot)*BlockSize); err != nil {
		return fmt.Errorf("write slot %d: %w", slot, err)
	}
	return nil
}

// Read returns the records of all slots.
func Read(path string) ([]Record, error) {
	d, err := open(path)
	if err != nil {
		return nil, err
	}
	defer d.close()
	records := make([]Record, Slots)
	for slot := range records {
		if records[slot], err = d.read(slot); err != nil {
			return nil, err
		}
	}
	return records, nil
}
