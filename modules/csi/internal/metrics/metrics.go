// Package metrics is what distort-csi tells Prometheus. Every metric begins with
// distort_csi_ and is in base units.
package metrics

import (
	"context"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	calls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "distort_csi_rpc_duration_seconds",
		Help:    "How long CSI calls took, by method and gRPC code.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120},
	}, []string{"method", "code"})
	mounted = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "distort_csi_publish_to_mounted_seconds",
		Help:    "Time from ControllerPublishVolume making an attachment until this node had staged the volume.",
		Buckets: []float64{.1, .25, .5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300},
	})
)

func init() { ctrlmetrics.Registry.MustRegister(calls, mounted, paths) }

// Calls counts and times calls.
func Calls() grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		began := time.Now()
		response, err := handler(ctx, request)
		calls.WithLabelValues(path.Base(info.FullMethod), status.Code(err).String()).Observe(time.Since(began).Seconds())
		return response, err
	}
}

// Mounted takes note of a volume that was staged for an attachment of this age.
// Clocks of hosts differ: what seems to have happened before is now.
func Mounted(age time.Duration) { mounted.Observe(max(0, age.Seconds())) }
