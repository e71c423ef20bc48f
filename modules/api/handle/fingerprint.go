package handle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Fingerprint is a hash over everything that a request asks for, as 64
// hexadecimal digits. A retry has the same name and fingerprint and continues
// the same object; the same name with another fingerprint is AlreadyExists.
//
// The request is encoded as JSON, whose maps are sorted by key; a field that is
// added later must be omitted when empty, or old objects stop matching.
func Fingerprint(request any) (string, error) {
	encoded, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("encode request for its fingerprint: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}
