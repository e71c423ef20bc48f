package request

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/csi/internal/volumecontext"
)

// Publish is a valid ControllerPublishVolumeRequest.
type Publish struct {
	Volume handle.Handle
	NodeID string
	Access Access
}

// ParsePublish validates the request; its errors are ErrInvalid or ErrNoVolume.
func ParsePublish(r *csi.ControllerPublishVolumeRequest, namespace string) (Publish, error) {
	volume, volumeErr := ParseVolumeID(r.GetVolumeId(), namespace)
	if volumeErr != nil && r.GetVolumeId() == "" {
		return Publish{}, volumeErr
	}
	node, err := parseNodeID(r.GetNodeId())
	if err != nil {
		return Publish{}, err
	}
	access, err := ParseCapability(r.GetVolumeCapability())
	if err != nil {
		return Publish{}, err
	}
	// A request that breaks a rule is told so, whether its volume exists or not.
	if volumeErr != nil {
		return Publish{}, volumeErr
	}
	if r.GetReadonly() {
		return Publish{}, invalidf("readonly true: access of one node cannot be narrowed (PUBLISH_READONLY is not offered)")
	}
	if _, err := volumecontext.Decode(r.GetVolumeContext()); err != nil {
		return Publish{}, invalidf("volume_context: %w", err)
	}
	return Publish{Volume: volume, NodeID: node, Access: access}, nil
}

// Unpublish is a valid ControllerUnpublishVolumeRequest.
type Unpublish struct {
	Volume handle.Handle
	// NodeID is empty for all nodes.
	NodeID string
}

// ParseUnpublish validates the request; its errors are ErrInvalid or
// ErrNoVolume.
func ParseUnpublish(r *csi.ControllerUnpublishVolumeRequest, namespace string) (Unpublish, error) {
	volume, err := ParseVolumeID(r.GetVolumeId(), namespace)
	if err != nil {
		return Unpublish{}, err
	}
	u := Unpublish{Volume: volume}
	if r.GetNodeId() != "" {
		if u.NodeID, err = parseNodeID(r.GetNodeId()); err != nil {
			return Unpublish{}, err
		}
	}
	return u, nil
}

// Validate is a valid ValidateVolumeCapabilitiesRequest. Whether the volume has
// the capabilities is for the volume to say.
type Validate struct {
	Volume handle.Handle
}

// ParseValidate validates the request; its errors are ErrInvalid or
// ErrNoVolume.
func ParseValidate(r *csi.ValidateVolumeCapabilitiesRequest, namespace string) (Validate, error) {
	if len(r.GetVolumeCapabilities()) == 0 && r.GetVolumeId() != "" {
		return Validate{}, invalidf("volume_capabilities are missing")
	}
	volume, err := ParseVolumeID(r.GetVolumeId(), namespace)
	if err != nil {
		return Validate{}, err
	}
	return Validate{Volume: volume}, nil
}

// Confirm tells why a volume made for one use does not have the capabilities,
// context and parameters that a ValidateVolumeCapabilitiesRequest names.
func (Validate) Confirm(r *csi.ValidateVolumeCapabilitiesRequest, defaults Defaults, suits func(Access) error) error {
	for _, c := range r.GetVolumeCapabilities() {
		access, err := ParseCapability(c)
		if err != nil {
			return err
		}
		if err := suits(access); err != nil {
			return err
		}
	}
	if _, err := volumecontext.Decode(r.GetVolumeContext()); err != nil {
		return invalidf("volume_context: %w", err)
	}
	_, err := parseParameters(r.GetParameters(), defaults.Backend)
	return err
}
