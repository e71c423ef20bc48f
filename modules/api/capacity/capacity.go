// Package capacity has the arithmetic of sizes: one rounding for requests,
// drives and free space, so that what placement counts is what is carved.
package capacity

import (
	"errors"
	"fmt"
	"math"
)

const (
	// Unit is the granularity of every size in bytes: 4 MiB.
	Unit int64 = 4 << 20
	// DefaultSize is the size in bytes of a volume whose request names none.
	DefaultSize int64 = 1 << 30
)

var (
	// ErrInvalid: the sizes contradict each other or are negative.
	ErrInvalid = errors.New("invalid size")
	// ErrOutOfRange: no multiple of Unit lies within the sizes, or the next
	// one does not fit 64 bits.
	ErrOutOfRange = errors.New("size out of range")
)

// RoundUp is the smallest multiple of Unit that is at least bytes.
func RoundUp(bytes int64) (int64, error) {
	if bytes < 0 {
		return 0, fmt.Errorf("%w: %d bytes is negative", ErrInvalid, bytes)
	}
	if bytes > math.MaxInt64-(Unit-1) {
		return 0, fmt.Errorf("%w: %d bytes rounded up to %d does not fit 64 bits", ErrOutOfRange, bytes, Unit)
	}
	return (bytes + Unit - 1) / Unit * Unit, nil
}

// Sum adds sizes in bytes. A sum that does not fit 64 bits is the largest that does,
// so that a mistake never looks like free space.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Resolve is the size in bytes for a request that asks for at least required
// and at most limit; zero means that the request does not say (CSI spec,
// CapacityRange). A request with a limit alone gets DefaultSize or the largest
// size under the limit.
func Resolve(required, limit int64) (int64, error) {
	switch {
	case required < 0:
		return 0, fmt.Errorf("%w: required_bytes %d is negative", ErrInvalid, required)
	case limit < 0:
		return 0, fmt.Errorf("%w: limit_bytes %d is negative", ErrInvalid, limit)
	case limit > 0 && required > limit:
		return 0, fmt.Errorf("%w: required_bytes %d is above limit_bytes %d", ErrInvalid, required, limit)
	case limit > 0 && limit < Unit:
		return 0, fmt.Errorf("%w: limit_bytes %d is below the smallest volume of %d bytes", ErrOutOfRange, limit, Unit)
	}
	if required == 0 {
		if limit > 0 {
			return min(DefaultSize, limit/Unit*Unit), nil
		}
		return DefaultSize, nil
	}
	size, err := RoundUp(required)
	if err != nil {
		return 0, err
	}
	if limit > 0 && size > limit {
		return 0, fmt.Errorf("%w: no multiple of %d bytes between required_bytes %d and limit_bytes %d", ErrOutOfRange, Unit, required, limit)
	}
	return size, nil
}

// Allocatable is the part in bytes of a drive of this raw size that volumes may
// use: its size minus one per cent, rounded down to Unit. What is left over
// holds the partition tables (design.md §3, NVMeDevice).
func Allocatable(raw int64) int64 {
	if raw <= 0 {
		return 0
	}
	spare := raw / 100
	if raw%100 != 0 {
		spare++
	}
	return (raw - spare) / Unit * Unit
}

// Constants of ZFS's own arithmetic (zvol_volsize_to_reservation): a level of
// indirect blocks has 128 KiB blocks of 1024 pointers, metadata is written twice,
// and the meta-dnode has seven levels.
const (
	zvolIndirect = 128 << 10
	zvolPointers = 1024
	zvolCopies   = 2
	zvolLevels   = 7
	// DefaultVolBlockSize is the block size in bytes of a zvol that names none.
	DefaultVolBlockSize int64 = 16 << 10
)

// Zvol is what a zvol of this size takes of its pool in bytes: its data and the
// metadata that ZFS reserves for it. blockSize is its volblocksize in bytes; zero
// means DefaultVolBlockSize. A pool of raidz vdevs takes more for small blocks.
func Zvol(size, blockSize int64) (int64, error) {
	if blockSize == 0 {
		blockSize = DefaultVolBlockSize
	}
	if size < 0 || blockSize < 0 {
		return 0, fmt.Errorf("%w: %d bytes in blocks of %d", ErrInvalid, size, blockSize)
	}
	blocks := size / blockSize
	metadata := int64(zvolLevels)
	for blocks > 1 {
		blocks = (blocks + zvolPointers - 1) / zvolPointers
		metadata += blocks
	}
	metadata *= zvolCopies * zvolIndirect
	if size > math.MaxInt64-metadata {
		return 0, fmt.Errorf("%w: a zvol of %d bytes does not fit 64 bits", ErrOutOfRange, size)
	}
	return size + metadata, nil
}
