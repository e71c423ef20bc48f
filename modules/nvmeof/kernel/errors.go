package kernel

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

// deviceError says what a refused "enable" means for the device.
func deviceError(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w: %s: %w", nvmeof.ErrDeviceNotFound, path, err)
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("%w: %s has no driver or medium: %w", nvmeof.ErrDeviceNotFound, path, err)
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENOTBLK):
		return fmt.Errorf("%w: %s is not a block device: %w", nvmeof.ErrInvalid, path, err)
	}
	return fmt.Errorf("device %s: %w", path, err)
}

// listenError says what a refused link of a port means for the listener. EINVAL
// cannot be the address, which was validated: the transport's module is missing.
func listenError(l nvmeof.Listener, err error) error {
	switch {
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("listen on %s: %w: module nvmet-%s cannot be loaded: %w", l, nvmeof.ErrTransportUnavailable, l.Transport, err)
	case errors.Is(err, syscall.ENODEV):
		return fmt.Errorf("listen on %s: %w: no %s device has this address (module nvmet-%s is loaded): %w", l, nvmeof.ErrTransportUnavailable, l.Transport, l.Transport, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("listen on %s: %w: %w", l, nvmeof.ErrAddressInUse, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("listen on %s: %w: %w", l, nvmeof.ErrAddressNotLocal, err)
	}
	return fmt.Errorf("listen on %s: %w", l, err)
}

// lockedIdentity says what EINVAL means for a value that was validated.
func lockedIdentity(what, from, to string, err error) error {
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("%w: %s cannot change from %q to %q since a host has discovered the subsystem; remove it and make it anew: %w",
			nvmeof.ErrIdentityLocked, what, from, to, err)
	}
	return err
}
