package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/turns"
)

// DefaultSocket is where SPDK's applications listen unless told otherwise.
const DefaultSocket = "/var/tmp/spdk.sock"

// Client calls one SPDK process, again and again, whenever it is there. All
// methods may be called from many goroutines.
type Client struct {
	socket  string
	objects turns.Turns

	mu     sync.Mutex
	conn   *conn
	closed bool
}

// New returns the client of the target behind the socket. It connects with the
// first call.
func New(socket string) *Client { return &Client{socket: socket} }

// Close ends the connection; calls in flight answer ErrNoAnswer, later ones
// nvmeof.ErrTargetUnavailable.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.conn != nil {
		c.conn.end(errors.New("client was closed"))
	}
	return nil
}

// Call calls a method and decodes its result into result, unless that is nil. nil
// params are none. The error is an *Error if SPDK refused, ErrNoAnswer if nothing
// is known, and nvmeof.ErrTargetUnavailable if the request cannot have been begun.
//
// Call is for reading. What changes something goes through Change.Call.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	_, err := c.call(ctx, method, params, result)
	return err
}

// call is Call. It also returns the call itself if it was sent.
func (c *Client) call(ctx context.Context, method string, params, result any) (*call, error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline(method))
	defer cancel()
	x, err := c.send(ctx, method, params)
	if errors.Is(err, errNotSent) {
		x, err = c.send(ctx, method, params)
	}
	if err != nil {
		return x, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case <-x.done:
	case <-ctx.Done():
		return x, fmt.Errorf("%s: %w: it may still be going on: %w", method, ErrNoAnswer, ctx.Err())
	}
	if x.err != nil {
		return x, x.err
	}
	if result == nil {
		return x, nil
	}
	if err := json.Unmarshal(x.result, result); err != nil {
		return x, fmt.Errorf("%s: result is not what was expected: %w", method, err)
	}
	return x, nil
}

func (c *Client) send(ctx context.Context, method string, params any) (*call, error) {
	conn, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	return conn.send(ctx, method, params)
}

// Wait waits until the process that answers now is gone, or has hung up, and then
// returns nil. It is an error if nobody answers, or ctx ends first.
func (c *Client) Wait(ctx context.Context) error {
	conn, err := c.connected(ctx)
	if err != nil {
		return err
	}
	select {
	case <-conn.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connected returns the connection, and makes it if there is none.
func (c *Client) connected(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, fmt.Errorf("%w: client was closed", nvmeof.ErrTargetUnavailable)
	}
	if c.conn != nil && c.conn.alive() {
		return c.conn, nil
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", nvmeof.ErrTargetUnavailable, err)
	}
	c.conn = newConn(nc)
	return c.conn, nil
}
