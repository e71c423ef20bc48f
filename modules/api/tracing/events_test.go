package tracing

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// told keeps what was told.
type told struct{ notes []string }

func (r *told) Eventf(_, _ runtime.Object, _, _, _, format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func TestEventsSayInWhichTraceTheyHappened(t *testing.T) {
	const traceID = "0af7651916cd43dd8448eb211c80319c"
	volume := func(traceparent string) runtime.Object {
		p := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
		Carrier{Object: p}.Set("traceparent", traceparent)
		return p
	}
	traceparent := "00-" + traceID + "-b7ad6b7169203331-01"
	var r told
	recorder := Events(&r)
	recorder.Eventf(volume(""), nil, "Normal", "Done", "Do", "%d%% done", 100)
	recorder.Eventf(volume(traceparent), nil, "Normal", "Done", "Do", "%d%% done", 100)
	recorder.Eventf(volume(traceparent), nil, "Normal", "Done", "Do", "%s", strings.Repeat("€", 700))
	if r.notes[0] != "100% done" || r.notes[1] != "100% done (trace_id "+traceID+")" {
		t.Errorf("told %q", r.notes[:2])
	}
	if n := len(r.notes[2]); n > 1024 || !strings.HasSuffix(r.notes[2], traceID+")") || !utf8.ValidString(r.notes[2]) {
		t.Errorf("a note of %d bytes: %q", n, r.notes[2])
	}
}
