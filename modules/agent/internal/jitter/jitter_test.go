package jitter_test

import (
	"testing"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/jitter"
)

func TestHalfToFullStaysInItsBoundsAndVaries(t *testing.T) {
	next := jitter.HalfToFull(time.Minute)
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := next()
		if d < 30*time.Second || d >= time.Minute {
			t.Fatalf("%s is not between 30 s and 1 min", d)
		}
		seen[d] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d different times of 1000: agents would act together", len(seen))
	}
}
