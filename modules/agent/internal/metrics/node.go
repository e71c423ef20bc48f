package metrics

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// collectTimeout bounds the reading of the cache.
const collectTimeout = 5 * time.Second

// Gauges of this node. No label names a volume or a drive.
var (
	drives    = prometheus.NewDesc("distort_agent_drives", "Drives of this node by state.", []string{"state"}, nil)
	exports   = prometheus.NewDesc("distort_agent_exports", "Volumes of this node by whether their export was last read back as it should be.", []string{"exported"}, nil)
	hosts     = prometheus.NewDesc("distort_agent_hosts", "Attachments to this node by whether the target admits their host.", []string{"admitted"}, nil)
	strangers = prometheus.NewDesc("distort_agent_strangers", "Exports and connections that no object asks for, as of the last check.", nil, nil)
)

// Source is what the gauges are read from.
type Source struct {
	// Cache holds this node's objects.
	Cache client.Reader
	// Strangers are what the target has although no object asks for it; false
	// before the first look.
	Strangers func() ([]string, bool)
}

// collector reads the cache when it is asked, and so costs no request.
type collector struct{ source atomic.Pointer[Source] }

var node = &collector{}

// Node has this node's gauges read from there.
func Node(from Source) { node.source.Store(&from) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{drives, exports, hosts, strangers} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	if err := source.collect(ctx, func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}); err != nil {
		to <- prometheus.NewInvalidMetric(drives, err)
	}
}

func (s *Source) collect(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) error {
	var devices v1alpha1.NVMeDeviceList
	var partitions v1alpha1.NVMePartitionList
	var volumes v1alpha1.VolumeList
	var attachments v1alpha1.NVMeVolumeAttachmentList
	for _, list := range []client.ObjectList{&devices, &partitions, &volumes, &attachments} {
		if err := s.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	states := map[string]float64{
		string(v1alpha1.DeviceAvailable): 0, string(v1alpha1.DeviceClaimed): 0, string(v1alpha1.DeviceUnavailable): 0,
	}
	for i := range devices.Items {
		states[string(devices.Items[i].Status.State)]++
	}
	for state, n := range states {
		gauge(drives, n, state)
	}
	exported, admitted := tally{}, tally{}
	for i := range partitions.Items {
		exported.count(meta.IsStatusConditionTrue(partitions.Items[i].Status.Conditions, v1alpha1.ConditionExported))
	}
	for i := range volumes.Items {
		exported.count(meta.IsStatusConditionTrue(volumes.Items[i].Status.Conditions, v1alpha1.ConditionExported))
	}
	for i := range attachments.Items {
		admitted.count(meta.IsStatusConditionTrue(attachments.Items[i].Status.Conditions, v1alpha1.ConditionAccessReady))
	}
	gauge(exports, exported.yes, "true")
	gauge(exports, exported.no, "false")
	gauge(hosts, admitted.yes, "true")
	gauge(hosts, admitted.no, "false")
	if list, known := s.Strangers(); known {
		gauge(strangers, float64(len(list)))
	}
	return nil
}

type tally struct{ yes, no float64 }

func (t *tally) count(is bool) {
	if is {
		t.yes++
	} else {
		t.no++
	}
}
