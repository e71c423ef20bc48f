package request

import (
	"errors"
	"fmt"
)

var (
	// ErrInvalid: the request breaks a rule; the message names field, value and
	// rule.
	ErrInvalid = errors.New("invalid request")
	// ErrOutOfRange: no volume can have the requested size.
	ErrOutOfRange = errors.New("capacity out of range")
	// ErrNoVolume: the volume ID is no text that this driver ever returned, so
	// there is no such volume.
	ErrNoVolume = errors.New("no such volume")
	// ErrNoSnapshot: the same of a snapshot ID.
	ErrNoSnapshot = errors.New("no such snapshot")
	// ErrBadToken: the token is not one that this driver returned.
	ErrBadToken = errors.New("invalid token")
)

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// maxShown bounds in bytes what a message repeats of a request.
const maxShown = 64

// shown is a value as messages show it: quoted, so that control bytes are
// visible, and short.
func shown(s string) string {
	if len(s) > maxShown {
		return fmt.Sprintf("%q… (%d bytes)", s[:maxShown], len(s))
	}
	return fmt.Sprintf("%q", s)
}
