package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
)

const (
	traceID    = "0af7651916cd43dd8448eb211c80319c"
	spanOfCall = "b7ad6b7169203331"
	earlier    = "00-" + traceID + "-" + spanOfCall + "-01"
)

var create = &grpc.UnaryServerInfo{FullMethod: "/csi.v1.Controller/CreateVolume"}

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

func TestACallMarksWhatItMakes(t *testing.T) {
	tracer, exporter := newTracer(t)
	var made metav1.ObjectMeta
	var seen string
	answer, err := tracer.Call(t.Context(), create, Origin{Volume: "pvc-1"}, func(ctx context.Context) (any, error) {
		Mark(ctx, &made)
		seen = ID(ctx)
		return "answer", nil
	})
	if answer != "answer" || err != nil {
		t.Errorf("got %v, %v", answer, err)
	}
	s := exporter.GetSpans()[0]
	want := "00-" + s.SpanContext.TraceID().String() + "-" + s.SpanContext.SpanID().String() + "-01"
	if got := made.Annotations[tracing.TraceparentAnnotation]; got != want {
		t.Errorf("the object carries %q, the span is %q", got, want)
	}
	if seen != s.SpanContext.TraceID().String() || s.Parent.IsValid() || s.Name != "csi.v1.Controller/CreateVolume" || s.Status.Code != codes.Unset {
		t.Errorf("ID %s, span %+v", seen, s)
	}
}

func TestOriginsOfCalls(t *testing.T) {
	derived := tracing.Derive("uid-1", tracing.End)
	for name, c := range map[string]struct {
		origin Origin
		// trace is "" for one of its own.
		trace, parent string
		links         []string
	}{
		"nothing is known":             {Origin{}, "", "", nil},
		"a repeated call":              {Origin{Earlier: earlier}, traceID, spanOfCall, []string{"first attempt"}},
		"a later phase":                {Origin{TraceID: derived, Cause: earlier}, tracing.ID(&metav1.ObjectMeta{UID: "uid-1", Annotations: map[string]string{tracing.TraceparentAnnotation: earlier}}, tracing.End), "", []string{"cause"}},
		"a call of a node":             {Origin{Cause: earlier}, "", "", []string{"cause"}},
		"a context that somebody made": {Origin{Earlier: "00-x", Cause: strings.ToUpper(earlier)}, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			tracer, exporter := newTracer(t)
			refused := status.Error(grpccodes.FailedPrecondition, "attached elsewhere")
			if _, err := tracer.Call(t.Context(), create, c.origin, func(context.Context) (any, error) { return nil, refused }); !errors.Is(err, refused) {
				t.Errorf("error %v", err)
			}
			s := exporter.GetSpans()[0]
			if got := s.SpanContext.TraceID().String(); c.trace != "" && got != c.trace || c.trace == "" && got == traceID {
				t.Errorf("trace %s, want %q", got, c.trace)
			}
			if got := s.Parent.SpanID(); got.IsValid() != (c.parent != "") || c.parent != "" && got.String() != c.parent {
				t.Errorf("parent %s, want %q", got, c.parent)
			}
			var links []string
			for _, l := range s.Links {
				links = append(links, l.Attributes[0].Value.AsString())
			}
			if !slices.Equal(links, c.links) {
				t.Errorf("links %v, want %v", links, c.links)
			}
			if s.Status.Code != codes.Error || s.Status.Description != "attached elsewhere" {
				t.Errorf("status %+v", s.Status)
			}
		})
	}
}

// TestARefusedVolumeIsAskedForAgain: the object of a refused request is gone, and
// still the next call for it is a retry.
func TestARefusedVolumeIsAskedForAgain(t *testing.T) {
	tracer, exporter := newTracer(t)
	full := status.Error(grpccodes.ResourceExhausted, "no room")
	for i, err := range []error{full, full, nil, nil} {
		volume := Origin{Volume: "pvc-1"}
		if i == 3 {
			volume.Volume = "pvc-2"
		}
		if _, got := tracer.Call(t.Context(), create, volume, func(context.Context) (any, error) { return nil, err }); !errors.Is(got, err) {
			t.Fatal(got)
		}
	}
	spans := exporter.GetSpans()
	first := spans[0].SpanContext
	for i, retry := range []bool{false, true, true, false} {
		linked := len(spans[i].Links) == 1 && spans[i].Links[0].SpanContext.SpanID() == first.SpanID()
		if joined := spans[i].SpanContext.TraceID() == first.TraceID(); i > 0 && joined != retry || linked != retry {
			t.Errorf("call %d: in the first one's trace %t, linked %t; want %t", i, joined, linked, retry)
		}
	}
	tracer.failed = map[string]attempt{"CreateVolume pvc-1": {traceparent(trace.ContextWithSpanContext(t.Context(), first)), time.Now().Add(-2 * maxRetrying)}}
	if got := tracer.first("CreateVolume pvc-1"); got != "" {
		t.Errorf("after %s a call still joins %s", 2*maxRetrying, got)
	}
	for i := range 2*maxAttempts + 1 {
		tracer.note(fmt.Sprint(i), "", full)
	}
	if n := len(tracer.failed); n > maxAttempts {
		t.Errorf("%d attempts are remembered", n)
	}
}

func TestNothingAsksForSpans(t *testing.T) {
	tracer, err := FromEnv(t.Context(), func(string) string { return "" })
	if tracer != nil || err != nil {
		t.Errorf("got %v, %v", tracer, err)
	}
	if err := tracer.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := FromEnv(t.Context(), func(string) string { return "zipkin" }); err == nil {
		t.Error("an exporter that there is not was accepted")
	}
}

// BenchmarkOff is what tracing costs a call when nothing asks for it.
func BenchmarkOff(b *testing.B) {
	var made metav1.ObjectMeta
	b.ReportAllocs()
	for b.Loop() {
		Mark(b.Context(), &made)
		if ID(b.Context()) != "" {
			b.Fatal("a trace")
		}
	}
	if made.Annotations != nil {
		b.Errorf("annotations %v were written", made.Annotations)
	}
}

func TestOffCostsNothing(t *testing.T) {
	if allocations := testing.Benchmark(BenchmarkOff).AllocsPerOp(); allocations != 0 {
		t.Errorf("%d allocations", allocations)
	}
}
