package request

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/handle"
)

// Expand is a valid ControllerExpandVolumeRequest.
type Expand struct {
	Volume handle.Handle
	// Size in bytes that the volume needs at least, a multiple of capacity.Unit;
	// 0 when the request only limits it.
	Size int64
	// Limit in bytes that the volume must not exceed; 0 is none.
	Limit int64
	// Access is how the volume is used; nil when the request does not say.
	Access *Access
}

// ParseExpand validates the request; its errors are ErrInvalid, ErrOutOfRange or
// ErrNoVolume.
func ParseExpand(r *csi.ControllerExpandVolumeRequest, namespace string) (Expand, error) {
	volume, volumeErr := ParseVolumeID(r.GetVolumeId(), namespace)
	if volumeErr != nil && r.GetVolumeId() == "" {
		return Expand{}, volumeErr
	}
	e := Expand{Volume: volume, Limit: r.GetCapacityRange().GetLimitBytes()}
	required := r.GetCapacityRange().GetRequiredBytes()
	if required == 0 && e.Limit == 0 {
		return Expand{}, invalidf("capacity_range is missing: want required_bytes, limit_bytes or both")
	}
	size, err := parseSize(r.GetCapacityRange())
	if err != nil {
		return Expand{}, err
	}
	if required > 0 {
		e.Size = size
	}
	if c := r.GetVolumeCapability(); c != nil {
		access, err := ParseCapability(c)
		if err != nil {
			return Expand{}, err
		}
		e.Access = &access
	}
	// A request that breaks a rule is told so, whether its volume exists or not.
	return e, volumeErr
}
