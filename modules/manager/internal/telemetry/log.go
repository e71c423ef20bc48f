package telemetry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/tracing"
)

// Log returns a context whose logger has these values and the trace that the
// object is in.
func Log(ctx context.Context, o metav1.Object, values ...any) context.Context {
	if id := tracing.ID(o, tracing.PhaseOf(o)); id != "" {
		values = append(values, "trace_id", id)
	}
	return log.IntoContext(ctx, log.FromContext(ctx).WithValues(values...))
}
