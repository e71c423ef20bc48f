// Package figures sums up what a benchmark measured, as numbers, as a table and as a
// plot.
package figures

import (
	"math"
	"slices"
	"time"
)

// Sample are the times that one kind of call took.
type Sample []time.Duration

// Quantile is the smallest time that at least the share q of the calls did not exceed
// (nearest rank); 0 without a call.
func (s Sample) Quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Point is one measured value y at a size x.
type Point struct{ X, Y float64 }

// Exponent is how y grows with x: the slope of the straight line through the logarithms
// with the least squares. 0 is flat, 1 is linear. It is NaN for fewer than two sizes.
func Exponent(points []Point) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		x, y := math.Log(p.X), math.Log(p.Y)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
