// Package inflight refuses a second operation on a volume while one runs
// (design.md §7: busy = Aborted). It refuses instead of queueing: the caller
// retries, and a queue behind a hung device would only grow.
package inflight

import "sync"

// Set holds the keys of running operations. The zero value is ready.
type Set struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// TryAcquire takes the key and returns the function that gives it back, or
// false when it is taken.
func (s *Set) TryAcquire(key string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.keys[key]; taken {
		return nil, false
	}
	if s.keys == nil {
		s.keys = map[string]struct{}{}
	}
	s.keys[key] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.keys, key)
	}, true
}
