package request

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// CreateSnapshot is a valid CreateSnapshotRequest.
type CreateSnapshot struct {
	// Name is the request's, ObjectName that of the object it becomes.
	Name       string
	ObjectName string
	// Source is the volume.
	Source handle.Handle
}

// ParseCreateSnapshot validates the request; its errors are ErrInvalid or
// ErrNoVolume.
func ParseCreateSnapshot(r *csi.CreateSnapshotRequest, namespace string) (CreateSnapshot, error) {
	if err := validateName(r.GetName()); err != nil {
		return CreateSnapshot{}, err
	}
	if r.GetSourceVolumeId() == "" {
		return CreateSnapshot{}, invalidf("source_volume_id is missing")
	}
	for _, key := range slices.Sorted(maps.Keys(r.GetParameters())) {
		// What a sidecar adds changes nothing about the snapshot.
		if !strings.HasPrefix(key, sidecarPrefix) {
			return CreateSnapshot{}, invalidf("unknown parameter %s: snapshots have none", shown(key))
		}
	}
	source, err := ParseVolumeID(r.GetSourceVolumeId(), namespace)
	return CreateSnapshot{Name: r.GetName(), ObjectName: identity.VolumeName(r.GetName()), Source: source}, err
}

// Suits tells why there can be no snapshot of a volume; the error is ErrInvalid.
func (CreateSnapshot) Suits(volume v1alpha1.Slice) error {
	if volume.GetReference().Kind != v1alpha1.KindVolume {
		return invalidf("source_volume_id: volumes of %s %q are slices of a drive, which have no snapshots", ParameterTargetBackend, BackendOf(volume))
	}
	return nil
}

// Fingerprint is equal for a request and its retries and differs for another
// snapshot of the same name.
func (c CreateSnapshot) Fingerprint() (string, error) {
	return handle.Fingerprint(struct {
		Source string `json:"source"`
	}{c.Source.String()})
}

// ParseSnapshotID reads the handle of a Snapshot. The error is ErrNoSnapshot for
// text that no version of the driver returned; ErrInvalid for a handle of something
// else, since nothing is known about it here.
func ParseSnapshotID(id string) (handle.Handle, error) {
	if id == "" {
		return handle.Handle{}, invalidf("snapshot_id is missing")
	}
	h, err := handle.Parse(id)
	switch {
	case errors.Is(err, handle.ErrMalformed) && !handleLike.MatchString(id):
		return handle.Handle{}, fmt.Errorf("%w: snapshot_id %s: %w", ErrNoSnapshot, shown(id), handle.ErrMalformed)
	case err != nil:
		return handle.Handle{}, invalidf("snapshot_id: %w", err)
	case h.Kind != handle.Snapshot:
		return handle.Handle{}, invalidf("snapshot_id %q: kind %s is no snapshot", id, h.Kind)
	}
	return h, nil
}

// ListSnapshots is a valid ListSnapshotsRequest.
type ListSnapshots struct {
	Page Page
	// Snapshot and Source are the only ones that are asked for; nil means all.
	Snapshot, Source *handle.Handle
	// Nothing is true when what is asked for was never a snapshot, or a volume.
	Nothing bool
}

// ParseListSnapshots validates the request; its errors are ErrInvalid or ErrBadToken.
func ParseListSnapshots(r *csi.ListSnapshotsRequest, namespace string) (ListSnapshots, error) {
	var l ListSnapshots
	var err error
	if l.Page, err = ParsePage(r.GetMaxEntries(), r.GetStartingToken()); err != nil {
		return l, err
	}
	if id := r.GetSnapshotId(); id != "" {
		h, err := ParseSnapshotID(id)
		l.Snapshot, l.Nothing = &h, err != nil
	}
	if id := r.GetSourceVolumeId(); id != "" {
		h, err := ParseVolumeID(id, namespace)
		l.Source, l.Nothing = &h, l.Nothing || err != nil
	}
	return l, nil
}

// Source is what a new volume is made of.
type Source struct {
	// Handle of a Snapshot or Volume.
	Handle handle.Handle
	// Content is how the request says it.
	Content *csi.VolumeContentSource
}

// parseSource reads the content of a new volume of this kind; nil is an empty volume.
func parseSource(content *csi.VolumeContentSource, kind v1alpha1.VolumeKind, namespace string) (*Source, error) {
	switch {
	case content == nil:
		return nil, nil
	case kind != v1alpha1.KindVolume:
		return nil, invalidf("volume_content_source: slices of a drive can be neither restored nor cloned; volumes of %s %q can", ParameterTargetBackend, backendZFS)
	}
	var h handle.Handle
	var err error
	switch {
	case content.GetSnapshot() != nil:
		h, err = ParseSnapshotID(content.GetSnapshot().GetSnapshotId())
	case content.GetVolume() != nil:
		h, err = ParseVolumeID(content.GetVolume().GetVolumeId(), namespace)
		if err == nil && h.Kind != handle.Volume {
			err = invalidf("volume_id %q is on a drive, and only volumes of %s %q are cloned", h, ParameterTargetBackend, backendZFS)
		}
	default:
		err = invalidf("neither a snapshot nor a volume")
	}
	if err != nil {
		return nil, fmt.Errorf("volume_content_source: %w", err)
	}
	return &Source{h, content}, nil
}
