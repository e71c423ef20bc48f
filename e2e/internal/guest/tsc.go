package guest

import (
	"fmt"
	"time"
)

// clockParameter tells a guest how fast its time stamp counter runs, which is the
// host's. A guest that finds out by itself, against an emulated timer, is wrong when its
// emulator waits for a processor meanwhile: on a busy host a guest's clock ran four
// times too fast, and every probe of its pods came too early. Empty when the host has no
// such counter.
func clockParameter() string {
	rate := cyclesPerMillisecond()
	if rate == 0 {
		return ""
	}
	return fmt.Sprintf(" tsc_early_khz=%d", rate)
}

// cyclesPerMillisecond measures the host's counter against its clock.
func cyclesPerMillisecond() uint64 {
	const span = 100 * time.Millisecond
	from, since := now()
	<-time.After(span)
	to, until := now()
	return uint64(float64(to-from) / (float64(until.Sub(since)) / float64(time.Millisecond)))
}

// now reads counter and clock at the same time: again, while something has come between.
func now() (uint64, time.Time) {
	const closely, attempts = 2 * time.Microsecond, 1000
	for i := 0; ; i++ {
		before := time.Now()
		counter := cycles()
		after := time.Now()
		if after.Sub(before) <= closely || i == attempts {
			return counter, before
		}
	}
}
