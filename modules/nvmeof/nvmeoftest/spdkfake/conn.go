package spdkfake

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"unicode/utf8"
)

const (
	maxRequest = 256 << 10 // SPDK's receive buffer
	maxValues  = 8192      // JSON values in one request
)

// conn is one client.
type conn struct {
	server *Server
	net    net.Conn
	gone   bool
	// out are answers that are not written yet: they are, when all requests that
	// came together have been looked at.
	out []byte
}

type request struct {
	id     json.RawMessage // nil: none was given, or null
	method string
	params json.RawMessage
}

func (c *conn) serve() {
	defer func() {
		c.server.mu.Lock()
		c.gone = true // also what is answered later: the operation goes on
		delete(c.server.conns, c)
		c.server.mu.Unlock()
		c.net.Close()
	}()
	var pending []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := c.net.Read(buf)
		pending = append(pending, buf[:n]...)
		values, rest, ok := split(pending)
		pending = append([]byte(nil), rest...)
		if len(values) > 0 && !c.handle(values) || !ok || len(pending) > maxRequest || err != nil {
			return
		}
	}
}

// split cuts off the complete JSON values. ok is false if what follows can never be
// one, or one is more than SPDK takes.
func split(data []byte) (values []json.RawMessage, rest []byte, ok bool) {
	for {
		rest = bytes.TrimLeft(data, " \t\r\n")
		if len(rest) == 0 {
			return values, nil, true
		}
		dec := json.NewDecoder(bytes.NewReader(rest))
		var v json.RawMessage
		err := dec.Decode(&v)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return values, rest, true
		}
		if err != nil || !utf8.Valid(v) || len(v) > maxRequest || count(v) > maxValues {
			return values, rest, false
		}
		values, data = append(values, v), rest[dec.InputOffset():]
	}
}

// count returns how many values a value consists of.
func count(v json.RawMessage) int {
	dec, n := json.NewDecoder(bytes.NewReader(v)), 0
	for {
		if _, err := dec.Token(); err != nil {
			return n
		}
		n++
	}
}

// handle takes the requests that came together. It is false when the connection is
// to be closed.
func (c *conn) handle(values []json.RawMessage) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range values {
		if c.gone {
			return false
		}
		c.value(v)
	}
	s.settle()
	return c.flush()
}

func (c *conn) flush() bool {
	if len(c.out) == 0 || c.gone {
		return !c.gone
	}
	out := c.out
	c.out = nil
	_, err := c.net.Write(out)
	return err == nil
}

// value takes one top-level value: a request or, since v26.05, many.
func (c *conn) value(v json.RawMessage) {
	var batch []json.RawMessage
	if v[0] != '[' || !c.server.atLeast(26, 5) || json.Unmarshal(v, &batch) != nil || len(batch) == 0 {
		c.request(v, func(line []byte) { c.out = append(append(c.out, line...), '\n') })
		return
	}
	// The answers of a batch leave together; none of them is ever late here.
	var lines [][]byte
	for _, one := range batch {
		c.request(one, func(line []byte) { lines = append(lines, line) })
	}
	c.server.settle()
	c.out = append(append(append(append(c.out, '['), bytes.Join(lines, []byte(","))...), ']'), '\n')
}

// request takes one request. write gets its answer, if it has one.
func (c *conn) request(v json.RawMessage, write func([]byte)) {
	r, ok := parse(v)
	if !ok {
		write(errorLine(json.RawMessage("null"), codeInvalidRequest, "Invalid request"))
		return
	}
	x := &call{server: c.server, conn: c, method: r.method, params: r.params}
	x.reply = func(result any, err *rpcError) {
		c.server.process.leave(x)
		if line := answerLine(r.id, result, err); line != nil && !c.gone {
			write(line)
		}
	}
	if len(r.params) > 0 && r.params[0] != '{' && r.params[0] != '[' {
		x.fail(codeInvalidRequest, "Invalid request")
		return
	}
	c.server.dispatch(x)
}

// parse reads a request as strictly as SPDK does.
func parse(v json.RawMessage) (r request, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(v))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return r, false
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := dec.Token()
		name, isName := key.(string)
		var value json.RawMessage
		if err != nil || !isName || seen[name] || dec.Decode(&value) != nil {
			return r, false
		}
		seen[name] = true
		null := bytes.Equal(value, []byte("null"))
		switch name {
		case "jsonrpc":
			if string(value) != `"2.0"` {
				return r, false
			}
		case "id":
			if value[0] == '{' || value[0] == '[' {
				return r, false
			}
			if !null {
				r.id = value
			}
		case "method":
			if json.Unmarshal(value, &r.method) != nil {
				return r, false
			}
		case "params":
			if !null {
				r.params = value
			}
		default:
			return r, false
		}
	}
	return r, r.method != ""
}

func errorLine(id json.RawMessage, code int, message string) []byte {
	line, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{code, message}})
	if err != nil {
		panic(err) // an id that was decoded
	}
	return line
}

// answerLine returns the answer; nil if it is a result that nobody asked for.
func answerLine(id json.RawMessage, result any, fail *rpcError) []byte {
	switch {
	case fail != nil && id == nil:
		return errorLine(json.RawMessage("null"), fail.Code, fail.Message)
	case fail != nil:
		return errorLine(id, fail.Code, fail.Message)
	case id == nil:
		return nil
	}
	line, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  any             `json:"result"`
	}{"2.0", id, result})
	if err != nil {
		panic(err) // a result of this package
	}
	return line
}
