package nvmeof

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

const (
	maxSerial     = 20   // NVMe Identify Controller, SN
	maxModel      = 40   // NVMe Identify Controller, MN
	maxNamespaces = 1024 // Linux nvmet, NVMET_MAX_NAMESPACES
	maxPath       = 4095 // Linux PATH_MAX without the terminator
	maxNSID       = 0xfffffffe
)

// Validate checks every field and returns all violations joined, each a
// FieldError. A Subsystem that passes is safe to hand to any Target.
func (s Subsystem) Validate() error {
	var errs []error
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	_, err := ParseNQN(s.NQN)
	add(at("nqn", err))
	if s.Serial == "" {
		add(invalid("serial", s.Serial, "must not be empty"))
	}
	add(checkText("serial", s.Serial, maxSerial))
	add(checkText("model", s.Model, maxModel))
	if len(s.Namespaces) > maxNamespaces {
		add(invalid("namespaces", strconv.Itoa(len(s.Namespaces)), "must be at most 1024"))
	}

	seen := uniq{}
	for i, ns := range s.Namespaces {
		field := fmt.Sprintf("namespaces[%d]", i)
		errs = append(errs, ns.validate(field)...)
		add(seen.check(field+".nsid", fmt.Sprint(ns.NSID)))
		add(seen.check(field+".devicePath", ns.DevicePath))
		add(seen.check(field+".uuid", ns.UUID.String()))
		add(seen.check(field+".nguid", ns.NGUID.String()))
	}
	for i, host := range s.AllowedHosts {
		field := fmt.Sprintf("allowedHosts[%d]", i)
		_, err := ParseNQN(host)
		add(at(field, err))
		add(seen.check(field, host))
	}
	for i, l := range s.Listeners {
		field := fmt.Sprintf("listeners[%d]", i)
		if rule := l.brokenRule(); rule != "" {
			add(invalid(field, l.String(), rule))
			continue
		}
		add(seen.check(field, l.String()))
	}
	return errors.Join(errs...)
}

func (n Namespace) validate(field string) []error {
	var errs []error
	if n.NSID == 0 || n.NSID > maxNSID {
		errs = append(errs, invalid(field+".nsid", fmt.Sprint(n.NSID), "must be from 1 to 4294967294"))
	}
	if rule := brokenPathRule(n.DevicePath); rule != "" {
		errs = append(errs, invalid(field+".devicePath", n.DevicePath, rule))
	}
	if n.UUID.IsZero() {
		errs = append(errs, invalid(field+".uuid", n.UUID.String(), "must not be zero"))
	}
	if n.NGUID.IsZero() {
		errs = append(errs, invalid(field+".nguid", n.NGUID.String(), "must not be zero"))
	}
	return errs
}

// ParseDevicePath returns s if it is the absolute, clean path of something
// below the root, without control bytes.
func ParseDevicePath(s string) (string, error) {
	if rule := brokenPathRule(s); rule != "" {
		return "", invalid("devicePath", s, rule)
	}
	return s, nil
}

func brokenPathRule(s string) string {
	switch {
	case s == "":
		return "must not be empty"
	case len(s) > maxPath:
		return "must have at most 4095 bytes"
	case s[0] != '/':
		return "must be absolute"
	case s == "/":
		return "must not be the root"
	case path.Clean(s) != s:
		return "must be canonical, without . .. // or a slash at the end"
	case strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) >= 0:
		return "must not contain control characters"
	case s[len(s)-1] == ' ':
		return "must not end with a space"
	}
	return ""
}

func checkText(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return invalid(field, s, fmt.Sprintf("must have at most %d characters", limit))
	case strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r > 0x7e }) >= 0:
		return invalid(field, s, "must be printable ASCII")
	case strings.TrimSpace(s) != s:
		// Targets pad with spaces, so that outer spaces cannot be read back.
		return invalid(field, s, "must not begin or end with a space")
	}
	return nil
}

// uniq finds values that occur twice among fields of the same kind. The kind
// is the field without its index.
type uniq map[string]string

func (u uniq) check(field, value string) error {
	open, end := strings.IndexByte(field, '['), strings.IndexByte(field, ']')
	key := field[:open] + field[end+1:] + "\x00" + value
	if first, ok := u[key]; ok {
		return invalid(field, value, "must be unique, but is equal to "+first)
	}
	u[key] = field
	return nil
}
