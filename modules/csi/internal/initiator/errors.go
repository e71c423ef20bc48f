package initiator

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// What callers tell apart.
var (
	// ErrRefused: the target answered and does not let this host in, or does
	// not have the subsystem. The kernel has one errno for both.
	ErrRefused = errors.New("target refused the connection")
	// ErrUnreachable: nothing answered at the portal, or not in time.
	ErrUnreachable = errors.New("target is unreachable")
	// ErrUnsupported: this host cannot do what was asked.
	ErrUnsupported = errors.New("not supported by this host")
	// ErrForeign: a controller of the subsystem is not one of ours.
	ErrForeign = errors.New("subsystem is connected by somebody else")
	// ErrNotFound: no usable device has the identity.
	ErrNotFound = errors.New("namespace not found")
	// ErrAmbiguous: more than one namespace claims the identity.
	ErrAmbiguous = errors.New("namespace identity is not unique")
	// ErrChanged: a device stopped being what it was found to be.
	ErrChanged = errors.New("device changed under its name")
	// ErrBusy: controllers are still there.
	ErrBusy = errors.New("subsystem is still connected")
	// ErrTooSmall: the device did not grow to the size that was asked for.
	ErrTooSmall = errors.New("device is too small")
	// ErrParameters: a controller has other connection parameters than asked for.
	ErrParameters = errors.New("connection parameters differ")
)

// connectError explains the errno of a write to /dev/nvme-fabrics (facts.md,
// "/dev/nvme-fabrics write").
func connectError(nqn string, p Portal, err error) error {
	var kind error
	var reason string
	switch {
	case errors.Is(err, unix.EIO):
		kind, reason = ErrRefused, "this host is not allowed there or the subsystem does not exist"
	case errors.Is(err, unix.ENOKEY):
		kind, reason = ErrRefused, "the target demands authentication and no secret is configured"
	case errors.Is(err, unix.EKEYREJECTED):
		kind, reason = ErrRefused, "the target rejected the authentication secret"
	case errors.Is(err, unix.EINVAL):
		kind, reason = ErrUnsupported, "the kernel refused the options: transport module missing, unknown parameter, or the host ID is in use with another host NQN"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		kind, reason = ErrUnsupported, "no /dev/nvme-fabrics or no device for the transport: load nvme-"+string(p.Transport)
	case errors.Is(err, unix.ECONNREFUSED):
		kind, reason = ErrUnreachable, "nothing listens there"
	case errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH),
		errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EHOSTDOWN), errors.Is(err, unix.EADDRNOTAVAIL):
		kind, reason = ErrUnreachable, "no route or no answer"
	default:
		return fmt.Errorf("connect %s at %s: %w", nqn, p, err)
	}
	return fmt.Errorf("connect %s at %s: %w: %s: %w", nqn, p, kind, reason, err)
}

// NotFoundError says what was looked for and what was there instead (known
// fault ST11). It is ErrNotFound, or ErrAmbiguous when Duplicate is set.
type NotFoundError struct {
	Want Identity
	// Controllers are the subsystem's controllers with their states.
	Controllers []string
	// Seen are the namespaces that the subsystem's controllers show.
	Seen []string
	// Duplicate names the device of another subsystem that has the UUID: the
	// kernel then ignores ours.
	Duplicate string
	// Reason is why what was seen does not do.
	Reason Reason
}

// Reason is why a namespace cannot be used.
type Reason string

// Reasons, for people to read and for callers to tell apart.
const (
	NoController     Reason = "no controller is connected"
	NoLiveController Reason = "no controller is live"
	NoNamespace      Reason = "the live controllers have no usable namespace"
	OtherIdentity    Reason = "no namespace has this identity"
	SizeZero         Reason = "the namespace has size 0"
	NotReached       Reason = "no live controller reaches the namespace"
)

// Error lists the identities seen.
func (e *NotFoundError) Error() string {
	list := func(items []string) string {
		if len(items) == 0 {
			return "none"
		}
		return strings.Join(items, "; ")
	}
	s := fmt.Sprintf("%s: %s (controllers: %s; namespaces seen: %s)", e.Want, e.Reason, list(e.Controllers), list(e.Seen))
	if e.Duplicate != "" {
		s += "; the UUID is in use by " + e.Duplicate
	}
	return s
}

// Is makes the error one of the sentinels.
func (e *NotFoundError) Is(target error) bool {
	if e.Duplicate != "" {
		return target == ErrAmbiguous
	}
	return target == ErrNotFound
}
