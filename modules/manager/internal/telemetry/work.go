package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/tracing"
)

// Work is what was done for an object, or tried.
type Work struct {
	// Name of the span, such as "carve".
	Name string
	// Object that the work was for, and the phase of its life.
	Object metav1.Object
	Phase  tracing.Phase
	// Late work belongs to no phase, such as a repair. It is a trace of its own,
	// which links to the object's.
	Late bool
	// Began is when it began. It ends now.
	Began time.Time
	// Err is why it failed, nil when it did not.
	Err error
	// Changes that were made, a line each, and Place where.
	Changes []string
	Place   string
}

// Did makes the span of some work. Work that is done again after it failed has a
// span of its own, which links to the first attempt.
func (t *Tracer) Did(w Work) {
	if t == nil {
		return
	}
	ctx, own := context.Background(), remote(tracing.Traceparent(w.Object))
	options := []trace.SpanStartOption{trace.WithTimestamp(w.Began), trace.WithAttributes(
		attribute.String("distort.object", w.Object.GetName()), attribute.String("distort.uid", string(w.Object.GetUID())),
	)}
	link := func(span trace.SpanContext, relation string) {
		if span.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: span, Attributes: []attribute.KeyValue{attribute.String("distort.link", relation)}}))
		}
	}
	first, tooOld := t.first(w)
	switch {
	case w.Late || tooOld:
		link(own, "cause")
	case w.Phase == tracing.Begin:
		ctx = trace.ContextWithRemoteSpanContext(ctx, own)
	default:
		ctx = context.WithValue(ctx, traceIDKey{}, trace.TraceID(tracing.Derive(w.Object.GetUID(), w.Phase)))
		link(own, "cause")
	}
	link(first, "first attempt")
	_, span := t.tracer.Start(ctx, w.Name, options...)
	if w.Place != "" {
		span.SetAttributes(attribute.String("distort.place", w.Place))
	}
	if len(w.Changes) > 0 {
		span.SetAttributes(attribute.StringSlice("distort.changes", w.Changes))
	}
	if w.Err != nil {
		span.SetStatus(codes.Error, w.Err.Error())
	}
	span.End()
	t.note(w, span.SpanContext())
}

const (
	// maxAttempts bounds the memory for work that fails and is then given up. Losing
	// it costs a link.
	maxAttempts = 4096
	// maxRetrying is how long after the first attempt work is still done in the trace
	// of its phase, which would otherwise grow for ever.
	maxRetrying = time.Hour
)

// attempts remembers the first attempt of work that has failed so far.
type attempts struct {
	mu     sync.Mutex
	failed map[work]attempt
}

type work struct {
	uid  types.UID
	name string
}

type attempt struct {
	span trace.SpanContext
	at   time.Time
}

// first is the first attempt, and tells whether it is too long ago.
func (a *attempts) first(w Work) (span trace.SpanContext, tooOld bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, tried := a.failed[work{w.Object.GetUID(), w.Name}]
	return known.span, tried && time.Since(known.at) > maxRetrying
}

func (a *attempts) note(w Work, span trace.SpanContext) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := work{w.Object.GetUID(), w.Name}
	if w.Err == nil {
		delete(a.failed, key)
		return
	}
	if a.failed == nil || len(a.failed) >= maxAttempts {
		a.failed = map[work]attempt{}
	}
	if _, tried := a.failed[key]; !tried {
		a.failed[key] = attempt{span, time.Now()}
	}
}
