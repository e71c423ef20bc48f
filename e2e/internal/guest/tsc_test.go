package guest

import (
	"math"
	"regexp"
	"testing"
)

// What a guest is told is the same each time, whatever else the host does.
func TestTheCounterIsMeasuredClosely(t *testing.T) {
	first, second := cyclesPerMillisecond(), cyclesPerMillisecond()
	if first == 0 && cycles() == 0 {
		t.Skip("this host has no time stamp counter")
	}
	if off := math.Abs(float64(first)/float64(second) - 1); off > 0.01 {
		t.Errorf("%d and then %d cycles in a millisecond", first, second)
	}
	if p := clockParameter(); !regexp.MustCompile(`^ tsc_early_khz=[1-9][0-9]{4,7}$`).MatchString(p) {
		t.Errorf("parameter %q", p)
	}
}
