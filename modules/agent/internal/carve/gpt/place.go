package gpt

import (
	"slices"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
)

// span is a region in bytes, end excluded.
type span struct{ start, end int64 }

// place finds the first gap that holds size bytes at a multiple of capacity.Unit,
// and the lowest free number. What the kernel still knows counts as taken even
// when the table does not have it any more: somebody may have it open.
func place(d inventory.Drive, t table, parts []inventory.Partition, size int64) (start int64, number int, err error) {
	var taken []span
	numbers := map[int]bool{}
	for _, e := range t.entries {
		taken = append(taken, span{e.Start, e.end()})
		numbers[e.Number] = true
	}
	for _, p := range parts {
		taken = append(taken, span{p.StartBytes, p.StartBytes + p.SizeBytes})
		numbers[p.Number] = true
	}
	slices.SortFunc(taken, func(a, b span) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
	full := &carve.NoSpaceError{Serial: d.Serial, Wanted: size}
	at, found := t.first, int64(-1)
	for _, next := range append(taken, span{t.last, t.last}) {
		from := alignUp(at)
		if gap := alignDown(next.start) - from; gap > 0 {
			full.Free += gap
			full.Largest = max(full.Largest, gap)
			if gap >= size && found < 0 {
				found = from
			}
		}
		at = max(at, next.end)
	}
	if found < 0 {
		return 0, 0, full
	}
	for number = 1; number <= maxEntries; number++ {
		if !numbers[number] {
			return found, number, nil
		}
	}
	full.Reason = "all 128 entries of the table are taken"
	return 0, 0, full
}

func alignUp(n int64) int64 { return alignDown(n + capacity.Unit - 1) }

func alignDown(n int64) int64 { return n / capacity.Unit * capacity.Unit }
