package spdkfake

import (
	"slices"
	"time"
)

const (
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeParams         = -32602
	codeInternal       = -32603
	codeState          = -1
)

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Errnos as SPDK answers them when it finds the cause at once.
var (
	errPerm    = rpcError{-1, "Operation not permitted"}
	errNoFile  = rpcError{-2, "No such file or directory"}
	errNoMem   = rpcError{-12, "Cannot allocate memory"}
	errExists  = rpcError{-17, "File exists"}
	errNoDev   = rpcError{-19, "No such device"}
	errInval   = rpcError{-22, "Invalid argument"}
	errTimeout = rpcError{-110, "Connection timed out"}
)

// later is an errno that SPDK finds in a callback: only the text is left of it.
func later(code int, e rpcError) *rpcError { return &rpcError{code, e.Message} }

var (
	badParams = rpcError{codeParams, "Invalid parameters"}
	internal  = rpcError{codeInternal, "Internal error"}
)

// call is one request being answered.
type call struct {
	server *Server
	conn   *conn
	method string
	params []byte
	object string // that it changes
	reply  func(result any, err *rpcError)
}

func (x *call) ok(result any)                 { x.finish(result, nil) }
func (x *call) fail(code int, message string) { x.finish(nil, &rpcError{code, message}) }
func (x *call) refuse(e rpcError)             { x.finish(nil, &e) }

func (x *call) finish(result any, err *rpcError) {
	reply := x.reply
	x.reply = func(any, *rpcError) {}
	reply(result, err)
}

// waiting is what happens when something is so: at once, in the next round of
// SPDK's pollers, or when I/O has ended.
type waiting struct {
	so   func() bool
	then func()
}

// next runs then in the next round: after all requests that came together.
func (x *call) next(then func()) { x.when(func() bool { return true }, then) }

// when runs then as soon as it is so.
func (x *call) when(so func() bool, then func()) *waiting {
	w := &waiting{so, then}
	x.server.process.waiting = append(x.server.process.waiting, w)
	return w
}

// within answers the error if what is waited for has not come by then.
func (x *call) within(d time.Duration, w *waiting, e rpcError) {
	p := x.server.process
	time.AfterFunc(d, func() {
		x.server.mu.Lock()
		defer x.server.mu.Unlock()
		if i := slices.Index(p.waiting, w); i >= 0 && p == x.server.process {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			x.refuse(e)
			x.conn.flush()
		}
	})
}

// settle runs all that has become so, until nothing does.
func (s *Server) settle() {
	for p := s.process; p == s.process; {
		i := slices.IndexFunc(p.waiting, func(w *waiting) bool { return w.so() })
		if i < 0 {
			break
		}
		w := p.waiting[i]
		p.waiting = slices.Delete(p.waiting, i, i+1)
		w.then()
	}
	for c := range s.conns {
		c.flush()
	}
}
