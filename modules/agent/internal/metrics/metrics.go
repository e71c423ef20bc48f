// Package metrics is what distort-agent tells Prometheus. Every metric begins with
// distort_agent_ and is in base units. What the reconcilers do is counted by
// controller-runtime (controller_runtime_reconcile_total).
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	provisioned = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "distort_agent_provision_duration_seconds",
		Help:    "Time from the creation of a volume's object until it was exported.",
		Buckets: []float64{.25, .5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300},
	})
	admitted = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "distort_agent_admission_duration_seconds",
		Help:    "Time from the creation of an attachment until the target admitted its host.",
		Buckets: []float64{.25, .5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300},
	})
	carves = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "distort_agent_carve_duration_seconds",
		Help:    "How long it took to carve a slice, by result.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"result"})
	fences = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "distort_agent_fence_duration_seconds",
		Help:    "How long it took to fence a host, by whether there is evidence for it.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"result"})
	repairs = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "distort_agent_export_repairs_total",
		Help: "Exports that were found not to be as they should be, and were repaired.",
	})
)

func init() {
	ctrlmetrics.Registry.MustRegister(provisioned, admitted, carves, fences, repairs, node)
	for _, result := range []string{"carved", "failed"} {
		carves.WithLabelValues(result)
	}
	for _, result := range []string{"proven", "unproven"} {
		fences.WithLabelValues(result)
	}
}

// Provisioned takes note of the first export of a volume that was created then.
func Provisioned(created time.Time) { provisioned.Observe(since(created)) }

// Admitted takes note of the admission of a host whose attachment was created then.
func Admitted(created time.Time) { admitted.Observe(since(created)) }

// Carved takes note of an attempt to carve.
func Carved(began time.Time, err error) { observe(carves, began, err, "carved", "failed") }

// Fenced takes note of an attempt to fence a host.
func Fenced(began time.Time, err error) { observe(fences, began, err, "proven", "unproven") }

// Repaired takes note of an export that was repaired.
func Repaired() { repairs.Inc() }

func observe(h *prometheus.HistogramVec, began time.Time, err error, good, bad string) {
	result := good
	if err != nil {
		result = bad
	}
	h.WithLabelValues(result).Observe(since(began))
}

// since is in seconds. Clocks of hosts differ: what seems to lie ahead is now.
func since(t time.Time) float64 { return max(0, time.Since(t).Seconds()) }
