package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/distort-io/distort/modules/api/tracing"
)

// Tracer makes spans. A nil Tracer makes none and costs nothing.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	attempts
}

// FromEnv returns a Tracer that exports as OpenTelemetry's standard variables
// say, nil when they ask for no export. What the SDK itself reads (sampler,
// batches, headers, certificates, resource attributes) it reads from the
// environment of the process.
func FromEnv(ctx context.Context, getenv func(string) string, attributes ...attribute.KeyValue) (*Tracer, error) {
	protocol, err := tracing.Exporter(getenv)
	if err != nil {
		return nil, err
	}
	var exporter *otlptrace.Exporter
	switch protocol {
	case tracing.Off:
		return nil, nil
	case tracing.GRPC:
		exporter, err = otlptracegrpc.New(ctx)
	default:
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("exporter of spans: %w", err)
	}
	// The environment comes last, so that it decides.
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(attributes...), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("describe this process for spans: %w", err), exporter.Shutdown(ctx))
	}
	return New(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described)), nil
}

// New returns a Tracer with these options.
func New(options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithIDGenerator(ids{}))...)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/distort-io/distort")}
}

// Shutdown exports what was not exported yet.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// remote is the span that a traceparent names; the zero SpanContext when it
// names none.
func remote(traceparent string) trace.SpanContext {
	carrier := propagation.MapCarrier{"traceparent": traceparent}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// traceIDKey is where a context holds the ID of the trace that a root span is to
// begin.
type traceIDKey struct{}

// ids are random but for such a trace ID.
type ids struct{}

func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, chosen := ctx.Value(traceIDKey{}).(trace.TraceID)
	if !chosen {
		_, _ = rand.Read(id[:]) // never fails
	}
	return id, spanID()
}

func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return spanID() }

func spanID() (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}
