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

// Kinds of gauges. No label names a volume or a drive.
var (
	nodeReady    = prometheus.NewDesc("distort_manager_storage_node_ready", "1 when the storage node can take volumes, else 0.", []string{"node"}, nil)
	nodeCapacity = prometheus.NewDesc("distort_manager_capacity_bytes", "Allocatable size of the claimed drives of a storage node.", []string{"node"}, nil)
	nodeFree     = prometheus.NewDesc("distort_manager_free_bytes", "What placement can still give of the claimed drives of a storage node.", []string{"node"}, nil)
	drives       = prometheus.NewDesc("distort_manager_drives", "Drives of the inventory by state.", []string{"state"}, nil)
	volumes      = prometheus.NewDesc("distort_manager_volumes", "Volumes by state.", []string{"state"}, nil)
)

// collector reads the cache when it is asked, and so costs no request.
type collector struct {
	cache atomic.Pointer[client.Reader]
}

var inventory = &collector{}

// Inventory has the objects of this cache counted whenever somebody asks. The cache
// must have an informer of each kind already, as placement's does.
func Inventory(cache client.Reader) { inventory.cache.Store(&cache) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{nodeReady, nodeCapacity, nodeFree, drives, volumes, unclaimed} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	cache := c.cache.Load()
	if cache == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	if err := collect(ctx, *cache, func(desc *prometheus.Desc, value float64, label string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}); err != nil {
		to <- prometheus.NewInvalidMetric(drives, err)
	}
	count, err := countUnclaimed(ctx, *cache, time.Now())
	if err != nil {
		to <- prometheus.NewInvalidMetric(unclaimed, err)
		return
	}
	to <- prometheus.MustNewConstMetric(unclaimed, prometheus.GaugeValue, float64(count))
}

func collect(ctx context.Context, cache client.Reader, gauge func(*prometheus.Desc, float64, string)) error {
	var nodes v1alpha1.RDMAStorageNodeList
	var devices v1alpha1.NVMeDeviceList
	var partitions v1alpha1.NVMePartitionList
	for _, list := range []client.ObjectList{&nodes, &devices, &partitions} {
		if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	for i := range nodes.Items {
		ready := 0.0
		if meta.IsStatusConditionTrue(nodes.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
			ready = 1
		}
		gauge(nodeReady, ready, nodes.Items[i].Name)
	}
	capacity, free, states := map[string]float64{}, map[string]float64{}, map[string]float64{
		string(v1alpha1.DeviceAvailable): 0, string(v1alpha1.DeviceClaimed): 0, string(v1alpha1.DeviceUnavailable): 0,
	}
	for i := range devices.Items {
		d := &devices.Items[i]
		states[string(d.Status.State)]++
		if d.Status.ClaimRef != nil && d.Status.FreeCapacity != nil {
			capacity[d.Spec.NodeName] += float64(d.Spec.TotalCapacity)
			free[d.Spec.NodeName] += float64(*d.Status.FreeCapacity)
		}
	}
	stages := map[string]float64{
		string(v1alpha1.PartitionPending): 0, string(v1alpha1.PartitionCreating): 0, string(v1alpha1.PartitionExported): 0, string(v1alpha1.PartitionFailed): 0,
	}
	for i := range partitions.Items {
		stage := partitions.Items[i].Status.State
		if stage == "" {
			stage = v1alpha1.PartitionPending
		}
		stages[string(stage)]++
	}
	for _, family := range []struct {
		desc   *prometheus.Desc
		values map[string]float64
	}{{nodeCapacity, capacity}, {nodeFree, free}, {drives, states}, {volumes, stages}} {
		for label, value := range family.values {
			gauge(family.desc, value, label)
		}
	}
	return nil
}
