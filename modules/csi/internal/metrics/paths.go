package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Path is the transport and the state of connections that are counted together.
type Path struct{ Transport, State string }

// pathCollector counts when it is asked.
type pathCollector struct {
	desc  *prometheus.Desc
	count atomic.Pointer[func() (map[Path]int, error)]
}

var paths = &pathCollector{desc: prometheus.NewDesc("distort_csi_initiator_paths",
	"NVMe-oF connections of this node, by transport and by the kernel's word for their state.", []string{"transport", "state"}, nil)}

// Paths has the connections of this node counted whenever somebody asks.
func Paths(count func() (map[Path]int, error)) { paths.count.Store(&count) }

// Describe implements prometheus.Collector.
func (c *pathCollector) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements prometheus.Collector.
func (c *pathCollector) Collect(to chan<- prometheus.Metric) {
	count := c.count.Load()
	if count == nil {
		return // not a node
	}
	found, err := (*count)()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.desc, err)
		return
	}
	for p, n := range found {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n), p.Transport, p.State)
	}
}
