package tracing

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is a part of an object's life that is one trace.
type Phase string

const (
	// Begin: a volume is provisioned, a host is admitted. The object carries the
	// context of this phase.
	Begin Phase = "begin"
	// End: a volume is deleted, a host is fenced.
	End Phase = "end"
)

// Resize is the phase in which a volume gets this size in bytes.
func Resize(size int64) Phase { return Phase("resize " + strconv.FormatInt(size, 10)) }

// Derive is the trace ID of a later phase of the object with this UID. Such a
// phase begins with a DELETE or a change of the spec, which cannot carry a
// context; the programs agree on its trace without a write. It is never zero.
func Derive(uid types.UID, phase Phase) [16]byte {
	sum := sha256.Sum256([]byte("distort trace\x00" + string(uid) + "\x00" + string(phase)))
	id := [16]byte(sum[:16])
	id[15] |= 1
	return id
}

// wellFormed is a traceparent as W3C trace context defines it.
var wellFormed = regexp.MustCompile(`^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// Traceparent is the context that the object carries; "" when there is none or a
// malformed one: anybody who may annotate the object may write what he likes.
func Traceparent(o metav1.Object) string {
	value := Carrier{o}.Get("traceparent")
	ids := wellFormed.FindStringSubmatch(value)
	if ids == nil || strings.HasPrefix(value, "ff") || strings.Trim(ids[1], "0") == "" || strings.Trim(ids[2], "0") == "" {
		return ""
	}
	return value
}

// ID is the trace of a phase of the object's life, as 32 hexadecimal digits; ""
// for an object that carries no context.
func ID(o metav1.Object, phase Phase) string {
	parent := Traceparent(o)
	switch {
	case parent == "":
		return ""
	case phase == Begin:
		return parent[3:35]
	}
	id := Derive(o.GetUID(), phase)
	return hex.EncodeToString(id[:])
}

// Note adds the trace of the phase to a message for people. The addition is the
// same each time, so that a message that did not change stays the same.
func Note(o metav1.Object, phase Phase, message string) string {
	if id := ID(o, phase); id != "" {
		return message + " (trace_id " + id + ")"
	}
	return message
}
