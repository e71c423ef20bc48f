package nvmeof

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// UUID is the identity of a namespace (NVMe namespace descriptor 3h). The zero
// value means "none" and is never valid in a Subsystem.
type UUID [16]byte

// NGUID is the namespace globally unique identifier (NVMe descriptor 2h). The
// zero value means "none" and is never valid in a Subsystem.
type NGUID [16]byte

// ParseUUID reads the canonical form, lower case with hyphens, and refuses the
// zero UUID.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	const rule = "must be a UUID in lower case, xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || s != strings.ToLower(s) {
		return UUID{}, invalid("uuid", s, rule)
	}
	digits := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, invalid("uuid", s, rule)
	}
	if u.IsZero() {
		return UUID{}, invalid("uuid", s, "must not be zero")
	}
	return u, nil
}

// ParseNGUID reads 32 hexadecimal digits in lower case and refuses zero.
func ParseNGUID(s string) (NGUID, error) {
	var g NGUID
	if len(s) != 32 || s != strings.ToLower(s) {
		return NGUID{}, invalid("nguid", s, "must be 32 hexadecimal digits in lower case")
	}
	if _, err := hex.Decode(g[:], []byte(s)); err != nil {
		return NGUID{}, invalid("nguid", s, "must be 32 hexadecimal digits in lower case")
	}
	if g.IsZero() {
		return NGUID{}, invalid("nguid", s, "must not be zero")
	}
	return g, nil
}

// DeriveUUID returns the UUID (RFC 9562 version 8, SHA-256) that belongs to
// these parts: equal parts in equal order give an equal UUID, for ever, so that
// an export made again keeps its identity.
func DeriveUUID(parts ...string) UUID {
	u := UUID(digest("nvmeof uuid", parts)[:16])
	u[6] = u[6]&0x0f | 0x80
	u[8] = u[8]&0x3f | 0x80
	return u
}

// DeriveSerial returns a serial number of 20 hexadecimal digits in upper case
// that belongs to the NQN.
func DeriveSerial(nqn string) string {
	return strings.ToUpper(hex.EncodeToString(digest("nvmeof serial", []string{nqn})[:10]))
}

// digest hashes the parts with their lengths, so that no two lists collide by
// concatenation.
func digest(purpose string, parts []string) []byte {
	h := sha256.New()
	for _, p := range append([]string{purpose}, parts...) {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return h.Sum(nil)
}

// NGUID returns the NGUID with the same 16 bytes, for exporters that have one
// identity and want both descriptors to carry it.
func (u UUID) NGUID() NGUID { return NGUID(u) }

// IsZero tells whether the identity is absent.
func (u UUID) IsZero() bool { return u == UUID{} }

// IsZero tells whether the identity is absent.
func (g NGUID) IsZero() bool { return g == NGUID{} }

// String returns the canonical form, lower case with hyphens.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// String returns 32 hexadecimal digits in lower case.
func (g NGUID) String() string { return hex.EncodeToString(g[:]) }

// MarshalText writes the canonical form; the zero UUID is the empty text.
func (u UUID) MarshalText() ([]byte, error) {
	if u.IsZero() {
		return nil, nil
	}
	return []byte(u.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (u *UUID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*u = UUID{}
		return nil
	}
	*u, err = ParseUUID(string(text))
	return err
}

// MarshalText writes 32 hexadecimal digits; the zero NGUID is the empty text.
func (g NGUID) MarshalText() ([]byte, error) {
	if g.IsZero() {
		return nil, nil
	}
	return []byte(g.String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (g *NGUID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*g = NGUID{}
		return nil
	}
	*g, err = ParseNGUID(string(text))
	return err
}
