package identity

import (
	"regexp"
	"strings"
)

// maxNodePrefix bounds the readable part of a device's name, so that name and
// suffix stay well within a DNS label.
const maxNodePrefix = 40

// maxVolumeName bounds the name of a volume object, so that a handle with
// namespace, name and UID stays within handle.MaxLength.
const maxVolumeName = 40

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// DeviceName is the name of the NVMeDevice object for the drive with this
// serial on this node: a readable prefix of the node's name and 64 bits of a
// hash over both.
func DeviceName(node, serial string) string {
	return readable(node, maxNodePrefix) + "-" + hex32(purposeDevice, node, serial)[:16]
}

// VolumeName is the name of the object made for the CSI request name (CSI spec,
// CreateVolumeRequest.name): the request's name itself where it is a short DNS
// label, as external-provisioner's are, else a hash of it.
func VolumeName(requestName string) string {
	if len(requestName) <= maxVolumeName && dnsLabel.MatchString(requestName) {
		return requestName
	}
	return "csi-" + hex32(purposeVolumeName, requestName)
}

// AttachmentName is the name of the only attachment that a single-writer volume
// can have. Because it depends on the volume alone, the API server itself
// refuses a second one (design.md §3).
func AttachmentName(volumeUID string) string {
	return "att-" + hex32(purposeAttachment, volumeUID)
}

// SharedAttachmentName is the name of the attachment of a multi-writer or
// read-only-many volume to one node. The first reader of a read-only-many volume,
// which replays the journal alone, has an AttachmentName.
func SharedAttachmentName(volumeUID, nodeID string) string {
	return "att-" + hex32(purposeAttachment, volumeUID, nodeID)
}

// readable turns a node name into the start of a DNS label.
func readable(node string, limit int) string {
	mapped := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		default:
			return '-'
		}
	}, node)
	if len(mapped) > limit {
		mapped = mapped[:limit]
	}
	mapped = strings.Trim(mapped, "-")
	if mapped == "" {
		return "node"
	}
	return mapped
}
