package request

import (
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// ParseCreateSnapshot reads which volume a snapshot is asked of; its errors are
// ErrInvalid or ErrNoVolume.
func ParseCreateSnapshot(r *csi.CreateSnapshotRequest, namespace string) (handle.Handle, error) {
	if err := validateName(r.GetName()); err != nil {
		return handle.Handle{}, err
	}
	if r.GetSourceVolumeId() == "" {
		return handle.Handle{}, invalidf("source_volume_id is missing")
	}
	return ParseVolumeID(r.GetSourceVolumeId(), namespace)
}

// RefuseSnapshot tells why there can be no snapshot of a volume; the error is
// ErrInvalid.
func RefuseSnapshot(volume v1alpha1.Slice) error {
	return invalidf("source_volume_id: this version makes no snapshots of volumes of %s %q", ParameterTargetBackend, backendOf(volume))
}

// ParseDeleteSnapshot validates the request. The error is ErrNoSnapshot for
// text that no version of the driver returned, and ErrInvalid for a snapshot of
// another version: nothing is known about it here.
func ParseDeleteSnapshot(r *csi.DeleteSnapshotRequest) error {
	id := r.GetSnapshotId()
	if id == "" {
		return invalidf("snapshot_id is missing")
	}
	if _, err := handle.Parse(id); errors.Is(err, handle.ErrMalformed) && !handleLike.MatchString(id) {
		return fmt.Errorf("%w: snapshot_id %s: %w", ErrNoSnapshot, shown(id), handle.ErrMalformed)
	}
	return invalidf("snapshot_id %s: this version has no backend with snapshots", shown(id))
}
