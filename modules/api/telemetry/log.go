package telemetry

import (
	"context"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
)

// Log returns a context whose logger has these values and the trace that the
// object is in.
func Log(ctx context.Context, o metav1.Object, values ...any) context.Context {
	if id := tracing.ID(o, PhaseOf(o)); id != "" {
		values = append(values, "trace_id", id)
	}
	return logr.NewContext(ctx, logr.FromContextOrDiscard(ctx).WithValues(values...))
}
