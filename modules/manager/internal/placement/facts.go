package placement

import (
	"slices"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// nearTo lists the transports that have a portal on the NUMA node of the device,
// each once.
func nearTo(device *v1alpha1.NVMeDevice, node *v1alpha1.RDMAStorageNode) []v1alpha1.Transport {
	if device.Spec.NUMANode == nil || node == nil {
		return nil
	}
	var near []v1alpha1.Transport
	for i := range node.Spec.Portals {
		portal := &node.Spec.Portals[i]
		if portal.NUMANode != nil && *portal.NUMANode == *device.Spec.NUMANode && !slices.Contains(near, portal.Transport) {
			near = append(near, portal.Transport)
		}
	}
	return near
}
