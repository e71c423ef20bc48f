package fencemodel

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"strings"
	"sync"
)

// explorer visits every state that can be reached, each once.
//
// A state is reached by repeating the actions that lead to it, since the agent in
// it is a goroutine that cannot be copied. From each new state the explorer goes
// on in the same world with the first action, and keeps the others for later.
type explorer struct {
	limit bounds
	bugs  bugs

	mu          sync.Mutex
	wake        *sync.Cond
	todo        []todo
	working     int
	ids         map[[16]byte]int
	edges       [][2]int
	good        []bool // nothing was left to do there
	transitions int
	deepest     int
	broken      string
}

// mostStates keeps the explorer within a machine's memory.
const mostStates = 5_000_000

// todo is a transition that was not taken yet.
type todo struct {
	from int
	path []string
}

// explore visits all states and returns the explorer with its counts.
func explore(limit bounds, planted bugs) *explorer {
	e := &explorer{limit: limit, bugs: planted, ids: map[[16]byte]int{}, todo: []todo{{from: -1}}}
	e.wake = sync.NewCond(&e.mu)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				next, ok := e.next()
				if !ok {
					return
				}
				e.follow(next)
				e.done()
			}
		})
	}
	workers.Wait()
	if e.broken == "" {
		e.trapped()
	}
	return e
}

func (e *explorer) next() (todo, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.todo) == 0 && e.working > 0 && e.broken == "" {
		e.wake.Wait()
	}
	if len(e.todo) == 0 || e.broken != "" {
		return todo{}, false
	}
	last := len(e.todo) - 1
	next := e.todo[last]
	e.todo = e.todo[:last]
	e.working++
	return next, true
}

func (e *explorer) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.working--
	e.wake.Broadcast()
}

// follow takes a transition, and goes on from there until a state is reached that
// was visited before.
func (e *explorer) follow(t todo) {
	w := newWorld(e.limit, e.bugs)
	defer func() { w.discard() }()
	for i, action := range t.path {
		if i == len(t.path)-1 {
			w.seen = len(w.kernel.Writes(device)) // those before were looked at
		}
		w.do(action)
	}
	from, path := t.from, t.path
	w.check()
	for {
		if w.broken != "" {
			e.report(w, path)
			return
		}
		snapshot := w.kernel.Snapshot()
		id, isNew := e.visit(from, w.key(snapshot), path)
		if !isNew {
			return
		}
		actions := w.actions(snapshot)
		if !hasWork(actions) {
			if w.settled(); w.broken != "" {
				e.report(w, path)
				return
			}
			e.mark(id)
		}
		if len(actions) == 0 {
			return
		}
		e.later(id, path, actions[1:])
		w.do(actions[0])
		w.check()
		from, path = id, append(path[:len(path):len(path)], actions[0])
	}
}

func hasWork(actions []string) bool {
	for _, a := range actions {
		if !idle(a) {
			return true
		}
	}
	return false
}

// visit notes the transition to the world's state.
func (e *explorer) visit(from int, state string, path []string) (id int, isNew bool) {
	sum := sha256.Sum256([]byte(state))
	key := [16]byte(sum[:16])
	e.mu.Lock()
	defer e.mu.Unlock()
	id, known := e.ids[key]
	if !known {
		id = len(e.ids)
		e.ids[key] = id
		e.good = append(e.good, false)
	}
	if from >= 0 {
		e.transitions++
		e.edges = append(e.edges, [2]int{from, id})
	}
	e.deepest = max(e.deepest, len(path))
	if len(e.ids) > mostStates && e.broken == "" {
		e.broken = fmt.Sprintf("more than %d states: the bounds are too wide", mostStates)
	}
	return id, !known && e.broken == ""
}

func (e *explorer) later(from int, path, actions []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range actions {
		e.todo = append(e.todo, todo{from, append(path[:len(path):len(path)], a)})
	}
	e.wake.Broadcast()
}

func (e *explorer) mark(id int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.good[id] = true
}

func (e *explorer) report(w *world, path []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken == "" {
		e.broken = w.broken + "\n" + story(e.limit, e.bugs, path)
	}
}

// story retells how a state was reached.
func story(limit bounds, planted bugs, path []string) string {
	w := newWorld(limit, planted)
	defer func() { w.discard() }()
	var b strings.Builder
	for i, action := range path {
		what := ""
		if at := w.agent.at; at != nil && (action == step || strings.HasPrefix(action, crash)) {
			what = ": " + at.name
		}
		fmt.Fprintf(&b, "%3d %s%s\n", i+1, action, what)
		w.do(action)
	}
	return b.String()
}

// trapped looks for states from which none can be reached in which nothing is left
// to do.
func (e *explorer) trapped() {
	before := make([][]int, len(e.good))
	for _, edge := range e.edges {
		before[edge[1]] = append(before[edge[1]], edge[0])
	}
	var reached []int
	saved := make([]bool, len(e.good))
	for id, good := range e.good {
		if good {
			saved[id] = true
			reached = append(reached, id)
		}
	}
	for len(reached) > 0 {
		id := reached[len(reached)-1]
		reached = reached[:len(reached)-1]
		for _, from := range before[id] {
			if !saved[from] {
				saved[from] = true
				reached = append(reached, from)
			}
		}
	}
	count := 0
	for _, ok := range saved {
		if !ok {
			count++
		}
	}
	if count > 0 {
		e.broken = fmt.Sprintf("from %d of %d states no state can be reached in which nothing is left to do", count, len(saved))
	}
}
