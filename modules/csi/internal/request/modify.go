package request

import (
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// ParseModify reads which volume a ControllerModifyVolumeRequest is about; its
// errors are ErrInvalid or ErrNoVolume.
func ParseModify(r *csi.ControllerModifyVolumeRequest, namespace string) (handle.Handle, error) {
	volume, err := ParseVolumeID(r.GetVolumeId(), namespace)
	if err == nil && len(r.GetMutableParameters()) == 0 {
		return handle.Handle{}, invalidf("mutable_parameters are missing")
	}
	return volume, err
}

// refuseMutable names the keys that are to be changed: no backend has a
// parameter that can change.
func refuseMutable(parameters map[string]string, backend string) error {
	if len(parameters) == 0 {
		return nil
	}
	keys := slices.Sorted(maps.Keys(parameters))
	for i, key := range keys {
		keys[i] = shown(key)
	}
	return invalidf("mutable_parameters %s: volumes of %s %q have no parameter that can change", strings.Join(keys, ", "), ParameterTargetBackend, backend)
}

// backendOf is the value of target-backend that a volume was made with.
func backendOf(volume v1alpha1.Slice) string {
	if volume.GetReference().Kind == v1alpha1.KindVolume {
		return backendZFS
	}
	return string(volume.GetTargetBackend())
}

// RefuseModify tells why a volume cannot be modified as a
// ControllerModifyVolumeRequest asks; the error is ErrInvalid.
func RefuseModify(r *csi.ControllerModifyVolumeRequest, volume v1alpha1.Slice) error {
	return refuseMutable(r.GetMutableParameters(), backendOf(volume))
}
