// Package metrics is what distort-manager tells Prometheus. Every metric begins
// with distort_manager_ and is in base units. What the reconcilers do is counted
// by controller-runtime (controller_runtime_reconcile_total).
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	placements = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "distort_manager_placements_total",
		Help: "Decisions about volumes that were written: placed, or refused for a reason that is new.",
	}, []string{"result"})
	placed = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "distort_manager_placement_duration_seconds",
		Help:    "Time from the look at a volume that found a drive until its placement was written, the reservation included.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	})
)

func init() {
	ctrlmetrics.Registry.MustRegister(placements, placed, inventory)
	for _, result := range []string{"placed", "refused"} {
		placements.WithLabelValues(result)
	}
}

// Placed takes note of a placement that was begun then.
func Placed(began time.Time) {
	placements.WithLabelValues("placed").Inc()
	placed.Observe(time.Since(began).Seconds())
}

// Refused takes note of a volume that no drive can hold.
func Refused() { placements.WithLabelValues("refused").Inc() }
