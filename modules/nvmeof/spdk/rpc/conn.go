package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/distort-io/distort/modules/nvmeof"
)

// conn is one connection, from its making to its end.
type conn struct {
	net   net.Conn
	write sync.Mutex // one request at a time

	mu    sync.Mutex
	last  uint64
	calls map[uint64]*call // sent, not answered
	err   error            // why it ended; nil while it is alive
	ended chan struct{}    // closed then

	facts facts
}

// call is one request. done is closed when SPDK has answered or the connection
// has ended; then result or err is set.
type call struct {
	method string
	done   chan struct{}
	result json.RawMessage
	err    error
}

func newConn(nc net.Conn) *conn {
	c := &conn{net: nc, calls: map[uint64]*call{}, ended: make(chan struct{})}
	go c.read()
	return c
}

func (c *conn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// send writes one request. A call that it returns along with an error has ended.
func (c *conn) send(ctx context.Context, method string, params any) (*call, error) {
	x := &call{method: method, done: make(chan struct{})}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", nvmeof.ErrTargetUnavailable, c.err)
	}
	c.last++
	id := c.last
	c.calls[id] = x
	c.mu.Unlock()

	line, err := json.Marshal(request{JSONRPC: "2.0", ID: id, Method: method, Params: params})
	if err == nil && len(line) > maxRequest {
		err = &nvmeof.FieldError{Field: "params of " + method, Value: fmt.Sprintf("%d bytes", len(line)), Rule: "must have at most 262144 bytes"}
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
		return nil, err
	}

	c.write.Lock()
	defer c.write.Unlock()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.net.SetWriteDeadline(deadline) // without one, the write fails or ends
	}
	n, err := c.net.Write(line)
	if err == nil {
		return x, nil
	}
	// A part of it may be on its way: nothing else can be sent.
	c.end(err)
	if n == 0 {
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return x, fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// errNotSent: SPDK had closed the connection, and nobody knew it yet.
var errNotSent = fmt.Errorf("%w: request was not sent", nvmeof.ErrTargetUnavailable)

// read takes answers until the connection ends.
func (c *conn) read() {
	lines := bufio.NewScanner(c.net)
	lines.Buffer(nil, maxAnswer)
	for lines.Scan() {
		a, err := decode(lines.Bytes())
		if err == nil && a.id == 0 {
			err = fmt.Errorf("SPDK could not read a request: %s (code %d)", a.err.Message, a.err.Code)
		}
		if err != nil {
			c.end(err)
			return
		}
		c.answered(a)
	}
	err := lines.Err()
	if err == nil {
		err = io.EOF
	}
	c.end(err)
}

func (c *conn) answered(a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.calls[a.id]
	if !ok {
		return
	}
	delete(c.calls, a.id)
	if a.err != nil {
		a.err.Method = x.method
		x.err = a.err
	} else {
		x.result = append(json.RawMessage(nil), a.result...) // of the reader's buffer
	}
	close(x.done)
}

// end closes the connection and lets all callers go.
func (c *conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if errors.Is(why, io.EOF) {
		why = errors.New("connection was closed by SPDK")
	}
	c.err = why
	close(c.ended)
	c.net.Close()
	for _, x := range c.calls {
		x.err = fmt.Errorf("%s: %w: %w", x.method, ErrNoAnswer, why)
		close(x.done)
	}
	clear(c.calls)
}
