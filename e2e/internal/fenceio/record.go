package fenceio

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

const (
	// Slots is how many blocks of the device are used.
	Slots = 256
	// BlockSize in bytes: a multiple of every logical block size.
	BlockSize = 4096
)

// Record names one write, on one line. The empty record is a slot that nobody has
// written.
type Record string

// NewRecord is the number-th write of a writer, to that slot.
func NewRecord(writer string, number, slot int) Record {
	return Record(fmt.Sprintf("writer=%s number=%d slot=%d", writer, number, slot))
}

// Writer is who wrote the record.
func (r Record) Writer() string {
	first, _, _ := strings.Cut(string(r), " ")
	return strings.TrimPrefix(first, "writer=")
}

// encode fills a block with repetitions of the record, so that a torn block is
// none.
func (r Record) encode(block []byte) {
	line := []byte(string(r) + "\n")
	for n := 0; n < len(block); {
		n += copy(block[n:], line)
	}
}

var errTorn = errors.New("a block is torn or foreign")

// decode reads a block.
func decode(block []byte) (Record, error) {
	if len(bytes.Trim(block, "\x00")) == 0 {
		return "", nil
	}
	line, _, _ := strings.Cut(string(block), "\n")
	want := make([]byte, len(block))
	Record(line).encode(want)
	if !bytes.Equal(block, want) {
		return "", fmt.Errorf("%w: it begins with %.60q", errTorn, line)
	}
	return Record(line), nil
}
