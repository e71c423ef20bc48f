package guestexec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
)

// Dial opens a connection to the command server of one guest.
type Dial func(ctx context.Context) (net.Conn, error)

// Client runs commands in one guest.
type Client struct {
	name string
	dial Dial
}

// NewClient returns a client of the guest with that name.
func NewClient(name string, dial Dial) *Client { return &Client{name: name, dial: dial} }

// Streams are a command's standard input, output and error; nil ones are empty.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Error is a command that ended with another code than 0.
type Error struct {
	// Guest and Args say which command it was.
	Guest string
	Args  []string
	// Code is its exit code.
	Code int
	// Output is what it printed to standard error, or to standard output if
	// that is all there was.
	Output string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("in guest %s: %s: exit code %d: %s", e.Guest, strings.Join(e.Args, " "), e.Code, strings.TrimSpace(e.Output))
}

// Run runs a command and returns its exit code; an error means that the code is
// not known.
func (c *Client) Run(ctx context.Context, request Request, streams Streams) (int, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return 0, fmt.Errorf("reach guest %s: %w", c.name, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	code, err := converse(conn, request, streams)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return 0, fmt.Errorf("in guest %s: %s: %w", c.name, strings.Join(request.Args, " "), err)
	}
	return code, nil
}

// Output runs a command without input and returns its standard output; a code
// other than 0 is an Error.
func (c *Client) Output(ctx context.Context, args ...string) (string, error) {
	return c.Pipe(ctx, nil, args...)
}

// Pipe is Output with standard input.
func (c *Client) Pipe(ctx context.Context, in io.Reader, args ...string) (string, error) {
	var out, errOut bytes.Buffer
	code, err := c.Run(ctx, Request{Args: args}, Streams{In: in, Out: &out, Err: &errOut})
	if err != nil {
		return out.String(), err
	}
	if code != 0 {
		text := errOut.String()
		if text == "" {
			text = out.String()
		}
		return out.String(), &Error{Guest: c.name, Args: args, Code: code, Output: text}
	}
	return out.String(), nil
}

func converse(conn net.Conn, request Request, streams Streams) (int, error) {
	frames := &writer{out: conn}
	if err := frames.json(kindRequest, request); err != nil {
		return 0, err
	}
	go func() {
		if streams.In != nil {
			// A broken connection is noticed by the reading side below.
			_, _ = io.Copy(stream{frames, kindStdin}, streams.In)
		}
		_ = frames.frame(kindStdinClose, nil)
	}()
	for {
		kind, payload, err := readFrame(conn)
		if err != nil {
			return 0, fmt.Errorf("connection ended before the command: %w", err)
		}
		switch kind {
		case kindStdout:
			err = writeTo(streams.Out, payload)
		case kindStderr:
			err = writeTo(streams.Err, payload)
		case kindExit:
			var result exit
			if err := json.Unmarshal(payload, &result); err != nil {
				return 0, fmt.Errorf("read the exit code: %w", err)
			}
			if result.Error != "" {
				return 0, fmt.Errorf("not run: %s", result.Error)
			}
			return result.Code, nil
		}
		if err != nil {
			return 0, err
		}
	}
}

func writeTo(out io.Writer, payload []byte) error {
	if out == nil {
		return nil
	}
	_, err := out.Write(payload)
	return err
}
