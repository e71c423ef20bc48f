package gpt

import (
	"cmp"
	"slices"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
)

// span is a region in bytes, end excluded.
type span struct{ start, end int64 }

func (s span) size() int64 { return s.end - s.start }

// gaps are the free regions between multiples of capacity.Unit, by start. What
// the kernel still knows counts as taken even when the table does not have it any
// more: somebody may have it open.
func gaps(t table, parts []inventory.Partition) []span {
	var taken []span
	for _, e := range t.entries {
		taken = append(taken, span{e.Start, e.end()})
	}
	for _, p := range parts {
		taken = append(taken, span{p.StartBytes, p.StartBytes + p.SizeBytes})
	}
	slices.SortFunc(taken, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	var out []span
	at := t.first
	for _, next := range append(taken, span{t.last, t.last}) {
		if g := (span{alignUp(at), alignDown(next.start)}); g.size() > 0 {
			out = append(out, g)
		}
		at = max(at, next.end)
	}
	return out
}

func largest(free []span) int64 {
	var out int64
	for _, g := range free {
		out = max(out, g.size())
	}
	return out
}

// place finds the first gap that holds size bytes, and the lowest free number.
func place(d inventory.Drive, t table, parts []inventory.Partition, size int64) (start int64, number int, err error) {
	free := gaps(t, parts)
	full := &carve.NoSpaceError{Serial: d.Serial, Wanted: size, Largest: largest(free)}
	for _, g := range free {
		full.Free += g.size()
	}
	i := slices.IndexFunc(free, func(g span) bool { return g.size() >= size })
	if i < 0 {
		return 0, 0, full
	}
	numbers := map[int]bool{}
	for _, e := range t.entries {
		numbers[e.Number] = true
	}
	for _, p := range parts {
		numbers[p.Number] = true
	}
	for number = 1; number <= maxEntries; number++ {
		if !numbers[number] {
			return free[i].start, number, nil
		}
	}
	full.Reason = "all 128 entries of the table are taken"
	return 0, 0, full
}

// holdsAll tells whether slices of these sizes, multiples of capacity.Unit, find
// room in whatever order they come and wherever each is put. A slice finds none
// only where the others took so much of every gap large enough for it that less
// is left: if they are too few, or too small together, that cannot be.
func holdsAll(free []span, sizes []int64) bool {
	var sum int64
	for _, s := range sizes {
		sum += s
	}
	for _, s := range sizes {
		count, least := 0, int64(0) // of others, and of their bytes
		for _, g := range free {
			if g.size() >= s {
				count++
				least += g.size() - s + capacity.Unit
			}
		}
		if len(sizes)-1 >= count && sum-s >= least {
			return false
		}
	}
	return true
}

func alignUp(n int64) int64 { return alignDown(n + capacity.Unit - 1) }

func alignDown(n int64) int64 { return n / capacity.Unit * capacity.Unit }
