package gpt

import (
	"testing"

	"github.com/distort-io/distort/modules/api/capacity"
)

const u = capacity.Unit

func TestHoldsAllInWhateverOrder(t *testing.T) {
	for name, c := range map[string]struct {
		free  []int64 // sizes of gaps, in units
		sizes []int64
		want  bool
	}{
		"nothing is to come":                            {free: []int64{1}, want: true},
		"nothing is to come and nothing is free":        {want: true},
		"exactly":                                       {free: []int64{9}, sizes: []int64{4, 5}, want: true},
		"one unit short":                                {free: []int64{8}, sizes: []int64{4, 5}},
		"enough in sum, no gap large enough":            {free: []int64{4, 4, 4}, sizes: []int64{5}},
		"a gap each":                                    {free: []int64{5, 5}, sizes: []int64{5, 5}, want: true},
		"small ones can spoil the only gap for a large": {free: []int64{8, 2}, sizes: []int64{7, 2}},
		"small ones cannot spoil both":                  {free: []int64{8, 8}, sizes: []int64{7, 2}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var free []span
			at := int64(0)
			for _, g := range c.free {
				free = append(free, span{at, at + g*u})
				at += (g + 1) * u
			}
			var sizes []int64
			for _, s := range c.sizes {
				sizes = append(sizes, s*u)
			}
			if got := holdsAll(free, sizes); got != c.want {
				t.Errorf("holdsAll = %v, want %v", got, c.want)
			}
		})
	}
}

// holdsAll never promises what some order, each slice put into any gap, breaks.
func TestHoldsAllIsNeverTooHopeful(t *testing.T) {
	var breaks func(free, sizes []int64) bool
	breaks = func(free, sizes []int64) bool {
		for i, s := range sizes {
			rest := append(append([]int64(nil), sizes[:i]...), sizes[i+1:]...)
			fits := false
			for g := range free {
				if free[g] < s {
					continue
				}
				fits = true
				after := append([]int64(nil), free...)
				after[g] -= s
				if breaks(after, rest) {
					return true
				}
			}
			if !fits {
				return true
			}
		}
		return false
	}
	promised := 0
	for code := range 6 * 6 * 5 * 5 * 5 {
		c := code
		digit := func(n int) int64 { d := c % n; c /= n; return int64(d) }
		free := []int64{digit(6), digit(6)}
		var sizes, inUnits []int64
		for range 3 {
			if s := digit(5); s > 0 {
				sizes, inUnits = append(sizes, s*u), append(inUnits, s)
			}
		}
		spans := []span{{0, free[0] * u}, {10 * u, (10 + free[1]) * u}}
		if !holdsAll(spans, sizes) {
			continue
		}
		promised++
		if breaks(free, inUnits) {
			t.Fatalf("gaps %v do not hold %v in every order", free, inUnits)
		}
	}
	if promised == 0 {
		t.Error("holdsAll promised nothing: the test proves nothing")
	}
}
