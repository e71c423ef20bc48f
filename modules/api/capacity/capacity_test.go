package capacity

import (
	"errors"
	"math"
	"testing"
)

const gib = int64(1) << 30

func TestResolve(t *testing.T) {
	cases := map[string]struct {
		required, limit, want int64
		err                   error
	}{
		"nothing said":                           {want: gib},
		"a multiple":                             {required: 8 << 20, want: 8 << 20},
		"rounded up":                             {required: 1, want: Unit},
		"rounded up to the limit":                {required: Unit + 1, limit: 2 * Unit, want: 2 * Unit},
		"exactly required and limit":             {required: Unit, limit: Unit, want: Unit},
		"no multiple between required and limit": {required: Unit + 1, limit: 2*Unit - 1, err: ErrOutOfRange},
		"limit alone, large":                     {limit: 2 * gib, want: gib},
		"limit alone, small":                     {limit: 3*Unit + 1, want: 3 * Unit},
		"limit alone, too small":                 {limit: Unit - 1, err: ErrOutOfRange},
		"limit below required":                   {required: 2 * Unit, limit: Unit, err: ErrInvalid},
		"negative required":                      {required: -1, err: ErrInvalid},
		"negative limit":                         {limit: -1, err: ErrInvalid},
		"overflow":                               {required: math.MaxInt64, err: ErrOutOfRange},
		"the largest size":                       {required: math.MaxInt64 - Unit + 1, want: math.MaxInt64 - Unit + 1},
		"the largest limit":                      {limit: math.MaxInt64, want: gib},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(tc.required, tc.limit)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("Resolve(%d, %d) = %d, %v, want %d, %v", tc.required, tc.limit, got, err, tc.want, tc.err)
			}
		})
	}
}

func TestAllocatable(t *testing.T) {
	cases := map[string]struct{ raw, want int64 }{
		"nothing":             {0, 0},
		"negative":            {-1, 0},
		"less than two units": {Unit, 0},
		"4 GiB":               {4 * gib, 1013 * Unit},
		"1 TB":                {1_000_204_886_016, 236_082 * Unit},
		"the largest":         {math.MaxInt64, (math.MaxInt64 - (math.MaxInt64/100 + 1)) / Unit * Unit},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Allocatable(tc.raw); got != tc.want {
				t.Errorf("Allocatable(%d) = %d (%d units), want %d (%d units)", tc.raw, got, got/Unit, tc.want, tc.want/Unit)
			}
		})
	}
}

func FuzzResolve(f *testing.F) {
	for _, seed := range [][2]int64{{0, 0}, {1, 0}, {0, 1}, {Unit + 1, 2 * Unit}, {math.MaxInt64, math.MaxInt64}, {-1, -1}, {math.MinInt64, 0}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, required, limit int64) {
		size, err := Resolve(required, limit)
		if err != nil {
			if size != 0 || !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrOutOfRange) {
				t.Fatalf("Resolve(%d, %d) = %d with error %v", required, limit, size, err)
			}
			return
		}
		if size < Unit || size%Unit != 0 || size < required || limit > 0 && size > limit {
			t.Errorf("Resolve(%d, %d) = %d: not a multiple of %d between the two", required, limit, size, Unit)
		}
		if again, err := Resolve(size, limit); err != nil || again != size {
			t.Errorf("Resolve(%d, %d) = %d, %v: a resolved size is not itself", size, limit, again, err)
		}
	})
}

func FuzzAllocatable(f *testing.F) {
	for _, seed := range []int64{0, -1, 1, Unit, 100 * Unit, 4 * gib, math.MaxInt64, math.MinInt64} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw int64) {
		got := Allocatable(raw)
		switch {
		case raw <= 0 && got != 0:
			t.Errorf("Allocatable(%d) = %d, want 0", raw, got)
		case got < 0 || got%Unit != 0:
			t.Errorf("Allocatable(%d) = %d is not a multiple of %d", raw, got, Unit)
		case raw > 0 && raw-got < raw/100:
			t.Errorf("Allocatable(%d) = %d leaves less than one per cent", raw, got)
		case raw > 0 && raw-got > raw/100+Unit:
			t.Errorf("Allocatable(%d) = %d leaves more than one per cent and a unit", raw, got)
		}
	})
}

// The sizes are those that ZFS 2.3.2 reserved (zfs get refreservation).
func TestZvolReservesAsZFSDoes(t *testing.T) {
	for name, c := range map[string]struct{ size, block, want int64 }{
		"the default block size": {64 << 20, 0, 70254592},
		"16 KiB":                 {64 << 20, 16 << 10, 70254592},
		"128 KiB":                {64 << 20, 128 << 10, 69206016},
		"512 bytes":              {64 << 20, 512, 102760448},
		"65 blocks more":         {67125248, 16 << 10, 70533120},
	} {
		if got, err := Zvol(c.size, c.block); err != nil || got != c.want {
			t.Errorf("%s: Zvol(%d, %d) = %d, %v; want %d", name, c.size, c.block, got, err, c.want)
		}
	}
	if _, err := Zvol(math.MaxInt64, 0); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("Zvol of the largest size: %v", err)
	}
	if _, err := Zvol(-1, 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("Zvol of a negative size: %v", err)
	}
}
