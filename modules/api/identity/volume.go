package identity

import (
	"regexp"
)

const (
	externalIDPrefix = "vol-"
	volumeNQNPrefix  = "nqn.2026-02.io.distort:volume-"
	// NSID is the namespace ID of every exported volume: one subsystem holds
	// one namespace.
	NSID uint32 = 1
)

var externalIDPattern = regexp.MustCompile(`^vol-[0-9a-f]{32}$`)

// ExternalID is the name of a volume outside Kubernetes: on partition tables,
// logical volumes and in its NQN. It depends on the object's UID alone, so that
// a recreated object of the same name is another volume.
func ExternalID(uid string) string { return externalIDPrefix + hex32(purposeExternalID, uid) }

// SnapshotID is the name of a snapshot outside Kubernetes, by its object's UID.
func SnapshotID(uid string) string { return "snap-" + hex32(purposeSnapshot, uid) }

// CopyID is the name of the snapshot that a volume is cloned from which is a copy of
// another volume, by the UID of the copy's object.
func CopyID(uid string) string { return "copy-" + hex32(purposeSnapshot, uid) }

// IsExternalID tells whether s has the form that ExternalID returns.
func IsExternalID(s string) bool { return externalIDPattern.MatchString(s) }

// VolumeNQN is the NQN of the subsystem that exports the volume with this
// external ID.
func VolumeNQN(externalID string) string { return volumeNQNPrefix + externalID }

// ExternalIDOfNQN is the inverse of VolumeNQN; false for an NQN that is not a
// volume of DISTORT.
func ExternalIDOfNQN(nqn string) (string, bool) {
	if len(nqn) <= len(volumeNQNPrefix) || nqn[:len(volumeNQNPrefix)] != volumeNQNPrefix {
		return "", false
	}
	id := nqn[len(volumeNQNPrefix):]
	return id, IsExternalID(id)
}

// NamespaceUUID is the UUID of the volume's NVMe namespace.
func NamespaceUUID(uid string) string { return uuid(purposeNamespace, uid) }

// NamespaceNGUID is the NGUID of the volume's NVMe namespace, in the form of a
// UUID, as nvmet reads and shows it.
func NamespaceNGUID(uid string) string { return uuid(purposeNGUID, uid) }

// SubsystemSerial is the serial number of the volume's subsystem: 20 bytes, all
// that the Identify Controller data structure holds.
func SubsystemSerial(uid string) string { return hex32(purposeSerial, uid)[:20] }

// PartitionUUID is the unique GUID of the volume's GPT partition.
func PartitionUUID(uid string) string { return uuid(purposePartition, uid) }

// FilesystemUUID is the UUID that the volume's filesystem is made with. It is
// known before mkfs runs, so that a filesystem is recognised as this volume's
// whatever was lost in a crash.
func FilesystemUUID(uid string) string { return uuid(purposeFilesystem, uid) }

// DiskGUID is the GUID of the partition table that DISTORT writes to the drive
// with this serial number: a table with another GUID is somebody else's.
func DiskGUID(serial string) string { return uuid(purposeDisk, serial) }
