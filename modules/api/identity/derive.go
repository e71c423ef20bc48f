package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// purpose separates derivations, so that two identities of one volume are
// never equal and none can be guessed to be another's.
type purpose string

const (
	purposeHost       purpose = "host"
	purposeExternalID purpose = "external-id"
	purposeNamespace  purpose = "namespace-uuid"
	purposeNGUID      purpose = "namespace-nguid"
	purposeSerial     purpose = "subsystem-serial"
	purposePartition  purpose = "partition-uuid"
	purposeFilesystem purpose = "filesystem-uuid"
	purposeDisk       purpose = "disk-guid"
	purposeDevice     purpose = "device-name"
	purposeVolumeName purpose = "volume-name"
	purposeAttachment purpose = "attachment-name"
	purposeSnapshot   purpose = "snapshot-id"
)

// digest hashes the parts under a purpose. Parts are length-prefixed, so that
// ("a", "bc") and ("ab", "c") differ.
func digest(p purpose, parts ...string) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "distort.io/%s", p)
	for _, part := range parts {
		fmt.Fprintf(h, "\x00%d:%s", len(part), part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// hex32 is 128 bits of the digest as 32 lower-case hexadecimal digits.
func hex32(p purpose, parts ...string) string {
	d := digest(p, parts...)
	return hex.EncodeToString(d[:16])
}

// uuid is 122 bits of the digest as a version 8 UUID (RFC 9562 §5.8) in its
// canonical lower-case form.
func uuid(p purpose, parts ...string) string {
	d := digest(p, parts...)
	d[6] = d[6]&0x0f | 0x80
	d[8] = d[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", d[0:4], d[4:6], d[6:8], d[8:10], d[10:16])
}
