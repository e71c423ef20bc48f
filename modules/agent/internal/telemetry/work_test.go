package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	spanOfCall  = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + spanOfCall + "-01"
)

func volume(traceparent string) *v1alpha1.NVMePartition {
	p := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "uid-1"}}
	if traceparent != "" {
		p.Annotations = map[string]string{tracing.TraceparentAnnotation: traceparent}
	}
	return p
}

func newTracer(t *testing.T) (*Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	exporter := tracetest.NewInMemoryExporter()
	tracer := New(sdktrace.WithSyncer(exporter))
	t.Cleanup(func() {
		if err := tracer.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tracer, exporter
}

func TestWorkBelongsToTheTraceOfItsPhase(t *testing.T) {
	for name, c := range map[string]struct {
		object *v1alpha1.NVMePartition
		phase  tracing.Phase
		late   bool
		// trace is "" for one of its own.
		trace, parent string
		links         int
	}{
		"the first phase continues the call": {volume(traceparent), tracing.Begin, false, traceID, spanOfCall, 0},
		"a later phase has its own":          {volume(traceparent), tracing.End, false, tracing.ID(volume(traceparent), tracing.End), "", 1},
		"late work links":                    {volume(traceparent), tracing.Begin, true, "", "", 1},
		"an object without a context":        {volume(""), tracing.Begin, false, "", "", 0},
		"one with a context of somebody":     {volume("00-nonsense"), tracing.Begin, false, "", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, exporter := newTracer(t)
			began := time.Now().Add(-time.Second)
			tracer.Did(Work{Name: "carve", Object: c.object, Phase: c.phase, Late: c.late, Began: began})
			spans := exporter.GetSpans()
			if len(spans) != 1 {
				t.Fatalf("%d spans", len(spans))
			}
			s := spans[0]
			if got := s.SpanContext.TraceID().String(); c.trace != "" && got != c.trace || c.trace == "" && got == traceID {
				t.Errorf("trace %s, want %q", got, c.trace)
			}
			if got := s.Parent.SpanID(); got.IsValid() != (c.parent != "") || c.parent != "" && got.String() != c.parent {
				t.Errorf("parent %s, want %q", got, c.parent)
			}
			if len(s.Links) != c.links {
				t.Errorf("links %+v, want %d", s.Links, c.links)
			}
			if !s.StartTime.Equal(began) || s.Status.Code != codes.Unset {
				t.Errorf("began %s, want %s; status %+v", s.StartTime, began, s.Status)
			}
		})
	}
}

func TestARetryLinksToTheFirstAttempt(t *testing.T) {
	tracer, exporter := newTracer(t)
	work := Work{Name: "carve", Object: volume(traceparent), Phase: tracing.Begin}
	refused := errors.New("drive refused")
	for _, err := range []error{refused, refused, nil, nil} {
		work.Err = err
		tracer.Did(work)
	}
	other := work
	other.Name, other.Err = "export", nil
	tracer.Did(other)
	spans := exporter.GetSpans()
	first := spans[0].SpanContext
	for i, wantLink := range []bool{false, true, true, false, false} {
		var linked []trace.SpanContext
		for _, l := range spans[i].Links {
			linked = append(linked, l.SpanContext)
		}
		if got := len(linked) == 1 && linked[0].SpanID() == first.SpanID(); got != wantLink {
			t.Errorf("attempt %d links to %v; want a link to the first: %t", i, linked, wantLink)
		}
	}
	work.Err = refused
	tracer.Did(work)
	for key, a := range tracer.failed {
		tracer.failed[key] = attempt{a.span, time.Now().Add(-2 * maxRetrying)}
	}
	tracer.Did(work)
	if late := exporter.GetSpans()[6]; late.SpanContext.TraceID() == first.TraceID() || len(late.Links) != 2 {
		t.Errorf("after %s a retry is still in the trace of the phase: %+v", 2*maxRetrying, late.SpanContext)
	}
	if spans[0].Status.Code != codes.Error || spans[0].Status.Description != refused.Error() {
		t.Errorf("status %+v", spans[0].Status)
	}
}

func TestTheMemoryOfAttemptsIsBounded(t *testing.T) {
	tracer, _ := newTracer(t)
	for i := range 2*maxAttempts + 1 {
		p := volume("")
		p.UID += "-" + p.UID
		tracer.note(Work{Name: fmt.Sprint(i), Object: p, Err: errors.New("no")}, trace.SpanContext{})
	}
	if n := len(tracer.failed); n > maxAttempts {
		t.Errorf("%d attempts are remembered", n)
	}
}

func TestWhatIsNotSampledStaysSo(t *testing.T) {
	tracer, exporter := newTracer(t)
	tracer.Did(Work{Name: "carve", Object: volume(strings.TrimSuffix(traceparent, "1") + "0"), Phase: tracing.Begin})
	if spans := exporter.GetSpans(); len(spans) != 0 {
		t.Errorf("exported %+v", spans)
	}
}

func TestNothingAsksForSpans(t *testing.T) {
	tracer, err := FromEnv(t.Context(), func(string) string { return "" })
	if tracer != nil || err != nil {
		t.Errorf("got %v, %v", tracer, err)
	}
	tracer.Did(Work{Name: "carve", Object: volume(traceparent)})
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := FromEnv(t.Context(), func(string) string { return "zipkin" }); err == nil {
		t.Error("an exporter that there is not was accepted")
	}
}

// BenchmarkOff is what tracing costs when nothing asks for it.
func BenchmarkOff(b *testing.B) {
	var tracer *Tracer
	p, changes := volume(""), []string{"made"}
	b.ReportAllocs()
	for b.Loop() {
		tracer.Did(Work{Name: "export", Object: p, Phase: tracing.Begin, Began: time.Now(), Changes: changes, Place: "node"})
	}
}

func TestOffCostsNothing(t *testing.T) {
	if allocations := testing.Benchmark(BenchmarkOff).AllocsPerOp(); allocations != 0 {
		t.Errorf("%d allocations", allocations)
	}
}
