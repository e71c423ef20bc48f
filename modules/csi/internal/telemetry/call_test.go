package telemetry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	spanOfCall  = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + spanOfCall + "-01"
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
		"a repeated call":              {Origin{Earlier: traceparent}, traceID, spanOfCall, []string{"first attempt"}},
		"a later phase":                {Origin{TraceID: derived, Cause: traceparent}, tracing.ID(&metav1.ObjectMeta{UID: "uid-1", Annotations: map[string]string{tracing.TraceparentAnnotation: traceparent}}, tracing.End), "", []string{"cause"}},
		"a call of a node":             {Origin{Cause: traceparent}, "", "", []string{"cause"}},
		"a context that somebody made": {Origin{Earlier: "00-x", Cause: strings.ToUpper(traceparent)}, "", "", nil},
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
