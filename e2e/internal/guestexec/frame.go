// Package guestexec runs commands in a guest over one TCP connection each: the
// client sends a request and standard input, the server sends standard output,
// standard error and at last how the command ended.
//
// A frame is one byte of kind, four bytes of length (big endian) and the
// payload.
package guestexec

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// kind tells frames apart.
type kind byte

const (
	kindRequest    kind = 1 // JSON Request, client to server, first
	kindStdin      kind = 2 // client to server
	kindStdinClose kind = 3 // client to server, empty
	kindStdout     kind = 4 // server to client
	kindStderr     kind = 5 // server to client
	kindExit       kind = 6 // JSON exit, server to client, last
)

// maxPayload bounds a frame, so that garbage cannot make a reader allocate much.
const maxPayload = 1 << 20

// Request is a command to run.
type Request struct {
	// Args is the command line, program first.
	Args []string `json:"args"`
	// Env is added to the guest's environment, "NAME=value".
	Env []string `json:"env,omitempty"`
	// Terminal asks for a pseudo-terminal of the given size.
	Terminal bool   `json:"terminal,omitempty"`
	Rows     uint16 `json:"rows,omitempty"`
	Columns  uint16 `json:"columns,omitempty"`
}

// exit is how a command ended: with Code, or it could not be started.
type exit struct {
	Code  int    `json:"code"`
	Error string `json:"error,omitempty"`
}

// writer sends frames; it may be used by many goroutines.
type writer struct {
	mutex sync.Mutex
	out   io.Writer
}

func (w *writer) frame(k kind, payload []byte) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	header := make([]byte, 5, 5+len(payload))
	header[0] = byte(k)
	binary.BigEndian.PutUint32(header[1:], uint32(len(payload)))
	_, err := w.out.Write(append(header, payload...))
	return err
}

func (w *writer) json(k kind, value any) error {
	payload, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return w.frame(k, payload)
}

// stream is an io.Writer that sends what it gets as frames of one kind.
type stream struct {
	frames *writer
	kind   kind
}

func (s stream) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		part := p[sent:min(len(p), sent+maxPayload)]
		if err := s.frames.frame(s.kind, part); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return len(p), nil
}

// readFrame reads one frame.
func readFrame(in io.Reader) (kind, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(in, header[:]); err != nil {
		return 0, nil, err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if length > maxPayload {
		return 0, nil, fmt.Errorf("frame of kind %d has %d bytes, at most %d are allowed", header[0], length, maxPayload)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(in, payload); err != nil {
		return 0, nil, err
	}
	return kind(header[0]), payload, nil
}
