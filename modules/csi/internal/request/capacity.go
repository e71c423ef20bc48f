package request

import (
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// sidecarPrefix starts the StorageClass parameters that are meant for sidecars.
// external-provisioner keeps them from CreateVolume, but not from GetCapacity.
const sidecarPrefix = "csi.storage.k8s.io/"

// Capacity is a valid GetCapacityRequest: the volumes whose room is asked for.
type Capacity struct {
	Kind      v1alpha1.VolumeKind
	Backend   v1alpha1.TargetBackend
	Transport v1alpha1.Transport
	// BlockSize in bytes of the volumes of a pool; 0 means the default.
	BlockSize int32
	// Domain from which the volumes must be reachable; empty means any.
	Domain v1alpha1.DomainName
}

// ParseCapacity validates the request by the rules of CreateVolume; its errors
// are ErrInvalid.
func ParseCapacity(r *csi.GetCapacityRequest, d Defaults) (Capacity, error) {
	own := maps.Clone(r.GetParameters())
	maps.DeleteFunc(own, func(key, _ string) bool {
		return strings.HasPrefix(key, sidecarPrefix) && key != ParameterFilesystem
	})
	p, err := parseParameters(own, d.Backend)
	if err != nil {
		return Capacity{}, err
	}
	// Older sidecars send a capability of mode UNKNOWN, which asks for nothing.
	asked := slices.DeleteFunc(slices.Clone(r.GetVolumeCapabilities()), func(c *csi.VolumeCapability) bool {
		return c.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_UNKNOWN
	})
	if len(asked) > 0 {
		access, err := parseCapabilities(asked)
		if err != nil {
			return Capacity{}, err
		}
		if _, err := p.complete(access); err != nil {
			return Capacity{}, err
		}
	}
	c := Capacity{Kind: p.kind, Backend: p.backend, Transport: p.transport, BlockSize: p.blockSize}
	if t := r.GetAccessibleTopology(); len(t.GetSegments()) > 0 {
		domains, err := parseDomains("accessible", []*csi.Topology{t}, d.TopologyKey)
		if err != nil {
			return Capacity{}, err
		}
		c.Domain = domains[0]
	}
	return c, nil
}
