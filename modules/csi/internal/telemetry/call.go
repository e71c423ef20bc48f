package telemetry

import (
	"cmp"
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
)

// Origin is where the trace of a call comes from. The zero Origin is a trace of
// its own.
type Origin struct {
	// Earlier is the traceparent of the first call that asked for the same. This
	// one joins its trace, and links to it.
	Earlier string
	// TraceID, unless zero, is the trace that the call begins (tracing.Derive).
	TraceID [16]byte
	// Cause is the traceparent of the call that the volume or the attachment
	// comes from, which this one links to.
	Cause string
	// Volume names the volume.
	Volume string
}

// Call runs a call in a span. The handler's context carries it. A call that this
// process has seen fail for the same volume is a repeated one, also when no object
// says so.
func (t *Tracer) Call(ctx context.Context, info *grpc.UnaryServerInfo, o Origin, handle func(context.Context) (any, error)) (any, error) {
	service, method, _ := strings.Cut(strings.TrimPrefix(info.FullMethod, "/"), "/")
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method)),
	}
	call := method + " " + o.Volume
	if o.Volume != "" {
		o.Earlier = cmp.Or(o.Earlier, t.first(call))
		options = append(options, trace.WithAttributes(attribute.String("distort.volume", o.Volume)))
	}
	for relation, traceparent := range map[string]string{"first attempt": o.Earlier, "cause": o.Cause} {
		if span := remote(traceparent); span.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: span, Attributes: []attribute.KeyValue{attribute.String("distort.link", relation)}}))
		}
	}
	switch earlier := remote(o.Earlier); {
	case earlier.IsValid():
		ctx = trace.ContextWithRemoteSpanContext(ctx, earlier)
	case o.TraceID != [16]byte{}:
		ctx = context.WithValue(ctx, traceIDKey{}, trace.TraceID(o.TraceID))
	}
	ctx, span := t.tracer.Start(ctx, service+"/"+method, options...)
	defer span.End()
	response, err := handle(ctx)
	code := status.Code(err)
	span.SetAttributes(attribute.String("rpc.grpc.status_code", code.String()))
	if err != nil {
		span.SetStatus(codes.Error, status.Convert(err).Message())
	}
	if o.Volume != "" {
		t.note(call, traceparent(ctx), err)
	}
	return response, err
}

// traceparent names the span of a call.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// ID is the trace of a call, as 32 hexadecimal digits; "" when it has no span.
func ID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

// Mark lets the object carry the span of the call that makes it. Without a span
// it carries nothing.
func Mark(ctx context.Context, o metav1.Object) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		propagation.TraceContext{}.Inject(ctx, tracing.Carrier{Object: o})
	}
}
