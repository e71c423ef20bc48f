// Package formatoncetest is a control plane's filesystem records in memory.
package formatoncetest

import (
	"context"
	"sync"

	"github.com/distort-io/distort/modules/csi/internal/formatonce"
)

// Recorder implements formatonce.Recorder. The zero value is ready.
type Recorder struct {
	// Fault, when set, is asked before "load" and "save" and after "save done";
	// an error is the call's answer. Set it before use.
	Fault func(op string) error

	mu      sync.Mutex
	records map[formatonce.AttachmentRef]formatonce.Record
	loads   int
}

var _ formatonce.Recorder = (*Recorder)(nil)

// Load implements formatonce.Recorder.
func (r *Recorder) Load(_ context.Context, ref formatonce.AttachmentRef) (formatonce.Record, error) {
	if err := r.fault("load"); err != nil {
		return formatonce.Record{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads++
	return r.records[ref], nil
}

// Save implements formatonce.Recorder.
func (r *Recorder) Save(_ context.Context, ref formatonce.AttachmentRef, record formatonce.Record) error {
	if err := r.fault("save"); err != nil {
		return err
	}
	r.Put(ref, record)
	return r.fault("save done")
}

// Put sets a record.
func (r *Recorder) Put(ref formatonce.AttachmentRef, record formatonce.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records == nil {
		r.records = map[formatonce.AttachmentRef]formatonce.Record{}
	}
	r.records[ref] = record
}

// Get returns a record, zero when there is none.
func (r *Recorder) Get(ref formatonce.AttachmentRef) formatonce.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records[ref]
}

// Loads counts the calls of Load that succeeded.
func (r *Recorder) Loads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loads
}

func (r *Recorder) fault(op string) error {
	if r.Fault == nil {
		return nil
	}
	return r.Fault(op)
}
