package initiator

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrInvalid: a target or identity breaks a rule; nothing was sent.
var ErrInvalid = errors.New("invalid NVMe-oF target")

const maxNQN = 223 // bytes; NVM Express Base Specification §4.7

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	// nqnPattern is narrower than the specification: what it leaves out
	// (commas, quotes, spaces, control bytes) could become another option of
	// the connect string (known fault SE4).
	nqnPattern  = regexp.MustCompile(`^nqn\.[0-9]{4}-(0[1-9]|1[0-2])\.[a-z0-9.-]+:[A-Za-z0-9:._-]+$`)
	zonePattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,15}$`)
)

const zeroUUID = "00000000-0000-0000-0000-000000000000"

// ValidateNQN tells what is wrong with an NQN; its errors are ErrInvalid.
func ValidateNQN(nqn string) error {
	if len(nqn) > maxNQN {
		return fmt.Errorf("%w: NQN of %d bytes, at most %d", ErrInvalid, len(nqn), maxNQN)
	}
	if !nqnPattern.MatchString(nqn) {
		return fmt.Errorf("%w: NQN %q is not nqn.<yyyy-mm>.<domain>:<name> of letters, digits and .:_-", ErrInvalid, nqn)
	}
	return nil
}

// Validate tells what is wrong with the portal; its errors are ErrInvalid.
func (p Portal) Validate() error {
	if p.Transport != TCP && p.Transport != RDMA {
		return fmt.Errorf("%w: transport %q, want %s or %s", ErrInvalid, p.Transport, TCP, RDMA)
	}
	a := p.Address
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Is4In6() {
		return fmt.Errorf("%w: portal address %q is not a unicast IPv4 or IPv6 address", ErrInvalid, a)
	}
	if a.Zone() != "" && !zonePattern.MatchString(a.Zone()) {
		return fmt.Errorf("%w: zone %q of portal address %q is not an interface name", ErrInvalid, a.Zone(), a)
	}
	if p.Port == 0 {
		return fmt.Errorf("%w: portal port 0", ErrInvalid)
	}
	return nil
}

// Validate tells what is wrong with the identity; its errors are ErrInvalid.
func (i Identity) Validate() error {
	if err := ValidateNQN(i.NQN); err != nil {
		return err
	}
	if i.NSID == 0 || i.NSID == 0xffffffff {
		return fmt.Errorf("%w: NSID %d, want 1 to 4294967294", ErrInvalid, i.NSID)
	}
	if !uuidPattern.MatchString(i.UUID) || i.UUID == zeroUUID {
		return fmt.Errorf("%w: namespace UUID %q is not a canonical non-zero UUID", ErrInvalid, i.UUID)
	}
	if i.NGUID != "" && (!uuidPattern.MatchString(i.NGUID) || i.NGUID == zeroUUID) {
		return fmt.Errorf("%w: namespace NGUID %q is not a canonical non-zero UUID", ErrInvalid, i.NGUID)
	}
	return nil
}

// Validate tells what is wrong with the parameters; its errors are ErrInvalid.
func (p Params) Validate() error {
	for _, field := range []struct {
		name     string
		value    *int
		min, max int
	}{
		{"ctrl-loss-tmo", p.CtrlLossTimeout, -1, 86400},
		{"reconnect-delay", p.ReconnectDelay, 1, 3600},
		{"keep-alive-tmo", p.KeepAliveTimeout, 1, 3600},
		{"fast-io-fail-tmo", p.FastIOFailTimeout, -1, 86400},
		{"nr-io-queues", p.IOQueues, 1, 1024},
		{"queue-size", p.QueueSize, 16, 1024},
	} {
		if field.value != nil && (*field.value < field.min || *field.value > field.max) {
			return fmt.Errorf("%w: %s %d, want %d to %d", ErrInvalid, field.name, *field.value, field.min, field.max)
		}
	}
	if loss, fast := p.CtrlLossTimeout, p.FastIOFailTimeout; loss != nil && fast != nil && *loss >= 0 && *fast > *loss {
		return fmt.Errorf("%w: fast-io-fail-tmo %d is longer than ctrl-loss-tmo %d", ErrInvalid, *fast, *loss)
	}
	return nil
}

// Validate tells what is wrong with the target; its errors are ErrInvalid.
func (t Target) Validate() error {
	if err := ValidateNQN(t.NQN); err != nil {
		return err
	}
	if err := ValidateNQN(t.HostNQN); err != nil {
		return fmt.Errorf("host: %w", err)
	}
	if !uuidPattern.MatchString(t.HostID) || t.HostID == zeroUUID {
		return fmt.Errorf("%w: host ID %q is not a canonical non-zero UUID", ErrInvalid, t.HostID)
	}
	if len(t.Portals) == 0 {
		return fmt.Errorf("%w: subsystem %s has no portal", ErrInvalid, t.NQN)
	}
	for _, p := range t.Portals {
		if err := p.Validate(); err != nil {
			return err
		}
	}
	return t.Params.Validate()
}

// normalUUID makes UUIDs comparable: sysfs of some kernels writes an NGUID
// without dashes.
func normalUUID(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "-", "")
}
