package telemetry

import (
	"sync"
	"time"
)

const (
	// maxAttempts bounds the memory for calls that fail and are never repeated.
	// Losing it costs a link.
	maxAttempts = 4096
	// maxRetrying is how long after the first attempt a call still joins its trace,
	// which would otherwise grow for ever.
	maxRetrying = time.Hour
)

// attempts remembers the first of calls that have failed so far: a volume that
// cannot be made leaves no object that could tell.
type attempts struct {
	mu     sync.Mutex
	failed map[string]attempt
}

type attempt struct {
	traceparent string
	at          time.Time
}

// first is the traceparent of the first attempt, "" when this is it.
func (a *attempts) first(call string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, tried := a.failed[call]
	if tried && time.Since(known.at) > maxRetrying {
		delete(a.failed, call)
		return ""
	}
	return known.traceparent
}

// note takes down how an attempt ended.
func (a *attempts) note(call, traceparent string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		delete(a.failed, call)
		return
	}
	if a.failed == nil || len(a.failed) >= maxAttempts {
		a.failed = map[string]attempt{}
	}
	if _, tried := a.failed[call]; !tried {
		a.failed[call] = attempt{traceparent, time.Now()}
	}
}
