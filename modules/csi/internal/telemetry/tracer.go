package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/distort-io/distort/modules/api/telemetry"
)

// Tracer makes the spans of calls. A nil Tracer makes none.
type Tracer struct {
	spans *telemetry.Tracer
	attempts
}

// FromEnv is telemetry.FromEnv for calls.
func FromEnv(ctx context.Context, getenv func(string) string, attributes ...attribute.KeyValue) (*Tracer, error) {
	spans, err := telemetry.FromEnv(ctx, getenv, attributes...)
	if spans == nil {
		return nil, err
	}
	return &Tracer{spans: spans}, nil
}

// New returns a Tracer with these options.
func New(options ...sdktrace.TracerProviderOption) *Tracer {
	return &Tracer{spans: telemetry.New(options...)}
}

// Shutdown exports what was not exported yet.
func (t *Tracer) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.spans.Shutdown(ctx)
}
