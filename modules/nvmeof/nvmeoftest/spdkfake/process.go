package spdkfake

import (
	"fmt"
	"slices"
)

// process is what one nvmf_tgt has in memory: all of it is gone when it ends.
type process struct {
	initialised bool
	iobuf       pools
	bdevs       []*bdev // in the order of their making
	stores      []*store
	controllers []*controller
	transports  []string
	subsystems  []*subsystem // by NQN
	noDiscovery bool         // the discovery subsystem was deleted
	mallocs     int
	notes       []note
	waiting     []*waiting
	changing    map[string]*call // by object
}

// note is an entry of notify_get_notifications.
type note struct {
	Type string `json:"type"`
	Ctx  string `json:"ctx"`
	ID   int    `json:"id"`
}

// pools are how many I/O buffers there are.
type pools struct{ small, large uint64 }

func newProcess(initialised bool, iobuf pools) *process {
	return &process{initialised: initialised, iobuf: iobuf, changing: map[string]*call{}}
}

func (p *process) note(kind, ctx string) {
	p.notes = append(p.notes, note{kind, ctx, len(p.notes)})
}

// method is how one method is answered.
type method struct {
	run func(*call)
	// startup methods are only allowed before the framework is initialised, always
	// ones at any time, all others after it.
	startup, always bool
	// object names what the method changes; nil if it only reads.
	object func(*call) string
}

const (
	onlyBefore = "Method may only be called before framework is initialized. Use --wait-for-rpc command line parameter and then issue this RPC before the framework_start_init RPC."
	onlyAfter  = "Method may only be called after framework is initialized using framework_start_init RPC."
)

// dispatch answers a request, or does with it what the test wants.
func (s *Server) dispatch(x *call) {
	m, known := methods[x.method]
	switch {
	case !known:
		x.fail(codeNoMethod, "Method not found")
		return
	case m.startup && s.process.initialised:
		x.fail(codeState, onlyBefore)
		return
	case !m.startup && !m.always && !s.process.initialised:
		x.fail(codeState, onlyAfter)
		return
	}
	if m.object != nil {
		if !s.enter(x, m.object(x)) {
			return
		}
	}
	s.faults.meet(s, x, func() { m.run(x) })
}

// enter notes that the call changes the object. Two that do so at once are what a
// client must never send. It is false if that was the end of the process.
func (s *Server) enter(x *call, object string) bool {
	if object == "" {
		return true
	}
	x.object = object
	p := s.process
	if other := p.changing[object]; other != nil {
		s.faults.collisions = append(s.faults.collisions, fmt.Sprintf("%s and %s of %s", other.method, x.method, object))
		if both := []string{other.method, x.method}; slices.Contains(both, "bdev_lvol_resize") && slices.Contains(both, "bdev_lvol_delete") {
			s.restart() // it crashed, and whoever supervises it starts it anew
			return false
		}
	}
	p.changing[object] = x
	return true
}

func (p *process) leave(x *call) {
	if p.changing[x.object] == x {
		delete(p.changing, x.object)
	}
}
