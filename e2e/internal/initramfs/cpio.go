// Package initramfs writes initial RAM file systems: cpio archives in the
// "newc" format that the Linux kernel unpacks (Documentation/driver-api/
// early-userspace/buffer-format.rst). Archives may follow one another, so that
// one for all guests and a small one for each can be put together.
package initramfs

import (
	"fmt"
	"io"
)

// File types in a newc mode field.
const (
	typeDirectory = 0o040000
	typeRegular   = 0o100000
)

// trailer is the name that ends an archive.
const trailer = "TRAILER!!!"

// Writer writes one archive.
type Writer struct {
	out    io.Writer
	inode  uint32
	offset int64
}

// NewWriter returns a writer to out.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Directory adds a directory; name has no leading slash.
func (w *Writer) Directory(name string) error {
	return w.entry(name, typeDirectory|0o755, nil)
}

// File adds a regular file with its permission bits.
func (w *Writer) File(name string, mode uint32, content []byte) error {
	return w.entry(name, typeRegular|mode&0o7777, content)
}

// Close ends the archive and pads it to 512 bytes, so that the next archive
// begins at a multiple of four.
func (w *Writer) Close() error {
	w.inode = 0
	if err := w.entry(trailer, 0, nil); err != nil {
		return err
	}
	return w.pad(512)
}

func (w *Writer) entry(name string, mode uint32, content []byte) error {
	w.inode++
	links := 1
	if mode&typeDirectory == typeDirectory {
		links = 2
	}
	header := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		w.inode, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	if err := w.write([]byte(header)); err != nil {
		return err
	}
	if err := w.pad(4); err != nil {
		return err
	}
	if err := w.write(content); err != nil {
		return err
	}
	return w.pad(4)
}

func (w *Writer) pad(alignment int64) error {
	if rest := w.offset % alignment; rest != 0 {
		return w.write(make([]byte, alignment-rest))
	}
	return nil
}

func (w *Writer) write(data []byte) error {
	n, err := w.out.Write(data)
	w.offset += int64(n)
	if err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	return nil
}
