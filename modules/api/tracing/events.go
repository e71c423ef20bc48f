package tracing

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EventRecorder is that of k8s.io/client-go/tools/events.
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, format string, args ...any)
}

// Events returns a recorder whose events say in which trace of their object they
// happened.
func Events(to EventRecorder) EventRecorder { return recorder{to} }

type recorder struct{ to EventRecorder }

// maxNote is how much of a note in bytes leaves room for the trace: the API takes
// 1024.
const maxNote = 960

// Eventf implements EventRecorder.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if o, ok := regarding.(metav1.Object); ok {
		if len(note) > maxNote {
			note = strings.ToValidUTF8(note[:maxNote], "") // a character may be cut in two
		}
		note = Note(o, PhaseOf(o), note)
	}
	r.to.Eventf(regarding, related, eventType, reason, action, "%s", note)
}

// PhaseOf is the phase that an object is in, apart from growth.
func PhaseOf(o metav1.Object) Phase {
	if o.GetDeletionTimestamp() != nil {
		return End
	}
	return Begin
}
