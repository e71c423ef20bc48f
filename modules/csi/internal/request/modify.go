package request

import (
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// mutable are the parameters of a zvol that can change. No other volume has one:
// a partition has nothing but its size.
var mutable = []string{ParameterCompression}

// Modify is a valid ControllerModifyVolumeRequest, but for whether the volume can be
// modified at all.
type Modify struct {
	Volume handle.Handle
	// Compression is the value that the zvol shall have; empty for a partition.
	Compression string
}

// ParseModify validates the request; its errors are ErrInvalid or ErrNoVolume.
func ParseModify(r *csi.ControllerModifyVolumeRequest, namespace string) (Modify, error) {
	volume, err := ParseVolumeID(r.GetVolumeId(), namespace)
	if err != nil {
		return Modify{}, err
	}
	if len(r.GetMutableParameters()) == 0 {
		return Modify{}, invalidf("mutable_parameters are missing")
	}
	m := Modify{Volume: volume}
	if volume.Kind == handle.Volume {
		m.Compression, err = parseMutable(r.GetMutableParameters())
	}
	return m, err
}

// parseMutable reads the parameters of a zvol that can change.
func parseMutable(values map[string]string) (compression string, err error) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(mutable, key) {
			return "", invalidf("mutable_parameters %s: cannot change; want %s", shown(key), strings.Join(mutable, ", "))
		}
	}
	v, given := values[ParameterCompression]
	if !given {
		return "", nil
	}
	return v, checkCompression("mutable_parameters", v)
}

// setMutable reads those of a volume that is to be made; they take precedence over the
// others (CSI spec, CreateVolumeRequest).
func (p *parameters) setMutable(values map[string]string) error {
	if err := RefuseModify(values, p.backendName()); err != nil {
		return err
	}
	compression, err := parseMutable(values)
	if compression != "" {
		p.compression = compression
	}
	return err
}

// RefuseModify tells that a volume of this backend has nothing that could change,
// naming what was asked for; nil when it has. The error is ErrInvalid.
func RefuseModify(parameters map[string]string, backend string) error {
	if len(parameters) == 0 || backend == backendZFS {
		return nil
	}
	keys := slices.Sorted(maps.Keys(parameters))
	for i, key := range keys {
		keys[i] = shown(key)
	}
	return invalidf("mutable_parameters %s: volumes of %s %q have no parameter that can change", strings.Join(keys, ", "), ParameterTargetBackend, backend)
}

// BackendOf is the value of target-backend that a volume was made with.
func BackendOf(volume v1alpha1.Slice) string {
	if volume.GetReference().Kind == v1alpha1.KindVolume {
		return backendZFS
	}
	return string(volume.GetTargetBackend())
}
