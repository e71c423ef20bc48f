// Package jitter spreads periodic work, so that the agents of a cluster that
// start together do not act together.
package jitter

import (
	"math/rand/v2"
	"time"
)

// HalfToFull returns a function that answers a time between half of the period
// and the whole of it, another one each time.
func HalfToFull(period time.Duration) func() time.Duration {
	return func() time.Duration { return period/2 + rand.N(period/2) }
}
