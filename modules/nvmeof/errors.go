package nvmeof

import (
	"errors"
	"fmt"
)

// Errors that callers branch on with errors.Is. Implementations of Target
// wrap them with the object, the value and the cause.
var (
	// ErrInvalid: a value breaks its grammar. Nothing was changed.
	ErrInvalid = errors.New("invalid value")
	// ErrNotFound: no subsystem of that NQN, or no such namespace in it.
	ErrNotFound = errors.New("subsystem not found")
	// ErrTargetUnavailable: the host has no target at all (module not loaded,
	// configfs not mounted, nobody answers on SPDK's socket).
	ErrTargetUnavailable = errors.New("target not available")
	// ErrTransportUnavailable: the listener's transport cannot be served here
	// (kernel module missing, or no RDMA device).
	ErrTransportUnavailable = errors.New("transport not available")
	// ErrAddressInUse: another socket of this host holds the listener's address.
	ErrAddressInUse = errors.New("listener address in use")
	// ErrAddressNotLocal: the listener's address is not one of this host.
	ErrAddressNotLocal = errors.New("listener address is not local")
	// ErrDeviceNotFound: no device at the namespace's path (yet).
	ErrDeviceNotFound = errors.New("device not found")
	// ErrDeviceInUse: another namespace exports this device path or carries
	// this identity already.
	ErrDeviceInUse = errors.New("device or identity already exported")
	// ErrIdentityLocked: serial or model cannot change any more, since a host
	// has read them. Remove the subsystem and make it anew.
	ErrIdentityLocked = errors.New("serial and model are locked")
	// ErrBusy: the target is held by an earlier call that has not come back
	// from the kernel or from SPDK, or by a user outside this library.
	ErrBusy = errors.New("target busy")
	// ErrDrainTimeout: the deadline passed while a namespace was being
	// drained. Nothing is fenced; writes may still reach the medium.
	ErrDrainTimeout = errors.New("drain not finished in time")
	// ErrUnsupported: the target lacks something that the operation needs.
	ErrUnsupported = errors.New("not supported by this target")
)

// FieldError says which field of the input breaks which rule.
// errors.Is(err, ErrInvalid) holds for it.
type FieldError struct {
	// Field is the path of the field, such as "namespaces[0].uuid".
	Field string
	// Value is the refused value as text.
	Value string
	// Rule is what the value must be.
	Rule string
}

// Error names field, value and rule.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Rule)
}

// Is makes every FieldError an ErrInvalid.
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, value, rule string) *FieldError {
	return &FieldError{Field: field, Value: value, Rule: rule}
}

// at returns err as found at field, for parsers that only know their own value.
func at(field string, err error) error {
	var fe *FieldError
	if errors.As(err, &fe) {
		return invalid(field, fe.Value, fe.Rule)
	}
	return err
}
