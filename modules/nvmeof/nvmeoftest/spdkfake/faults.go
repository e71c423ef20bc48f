package spdkfake

// Fault is what becomes of one call.
type Fault int

const (
	// KillBefore ends the client before the call has an effect: it is not carried
	// out, and nobody gets an answer or a connection any more until Revive.
	KillBefore Fault = iota + 1
	// KillAfter is KillBefore, but the call is carried out.
	KillAfter
	// RestartBefore ends the target instead of carrying the call out, and starts it
	// anew: it has forgotten everything but what is on files.
	RestartBefore
	// RestartAfter is RestartBefore after the call was carried out, before its answer.
	RestartAfter
	// Stall leaves the call alone for ever: no effect, no answer.
	Stall
	// Late carries the call out and keeps its answer until Release.
	Late
)

type faults struct {
	calls      int
	at         map[int]Fault
	changes    int
	atChange   map[int]Fault
	on         map[string]Fault
	killed     bool
	held       []func()
	trace      []string
	collisions []string
	observe    func(method string)
}

// meet counts the call and lets it happen, or not.
func (f *faults) meet(s *Server, x *call, run func()) {
	f.calls++
	fault, ok := f.at[f.calls]
	if !ok {
		fault = f.on[x.method]
		delete(f.on, x.method)
	}
	delete(f.at, f.calls)
	if x.object != "" {
		f.changes++
		if !ok {
			if late, due := f.atChange[f.changes]; due {
				fault = late
			}
		}
		delete(f.atChange, f.changes)
	}
	end := func(what func()) {
		x.reply = func(any, *rpcError) {}
		s.process.leave(x)
		what()
	}
	kill := func() { f.killed = true; s.hangUp() }
	reply := x.reply
	switch fault {
	case KillBefore:
		end(kill)
		return
	case RestartBefore:
		end(s.restart)
		return
	case Stall:
		return
	case KillAfter:
		x.reply = func(any, *rpcError) { end(kill) }
	case RestartAfter:
		x.reply = func(any, *rpcError) { end(s.restart) }
	case Late:
		x.reply = func(result any, err *rpcError) {
			f.held = append(f.held, func() { reply(result, err) })
		}
	}
	if x.object != "" {
		f.trace = append(f.trace, x.method+" "+x.object)
		if f.observe != nil {
			f.observe(x.method)
		}
	}
	run()
}

// At makes the n-th call from now (1 is the next one) meet the fault.
func (s *Server) At(n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.at == nil {
		s.faults.at = map[int]Fault{}
	}
	s.faults.at[s.faults.calls+n] = f
}

// AtChange makes the n-th call from now that changes something (1 is the next one)
// meet the fault.
func (s *Server) AtChange(n int, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.atChange == nil {
		s.faults.atChange = map[int]Fault{}
	}
	s.faults.atChange[s.faults.changes+n] = f
}

// Observe calls do whenever a call that changes something was carried out.
func (s *Server) Observe(do func(method string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.observe = do
}

// Killed tells whether a fault has ended the client.
func (s *Server) Killed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.killed
}

// On makes the next call of the method meet the fault.
func (s *Server) On(method string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.on == nil {
		s.faults.on = map[string]Fault{}
	}
	s.faults.on[method] = f
}

// Calls returns how many calls came so far.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.calls
}

// Faultless tells whether no fault is left to be met.
func (s *Server) Faultless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults.at) == 0 && len(s.faults.atChange) == 0 && len(s.faults.on) == 0
}

// Clear forgets all faults that nobody has met, and lets a new client in after a
// kill.
func (s *Server) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.at, s.faults.atChange, s.faults.on, s.faults.killed = nil, nil, nil, false
}

// Release sends all answers that are Late.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.faults.held
	s.faults.held = nil
	for _, answer := range held {
		answer()
	}
	s.settle()
}

// Trace returns the changes that were begun since the last call, "method object".
func (s *Server) Trace() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.faults.trace
	s.faults.trace = nil
	return t
}

// Collisions returns which changes of one object were in flight together. With
// some of them SPDK crashes or loses data, so a client has none.
func (s *Server) Collisions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults.collisions
}
