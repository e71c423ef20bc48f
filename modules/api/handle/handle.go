// Package handle is the grammar of the identifiers that CSI callers keep for
// us, and the fingerprint by which a repeated request is told from another one.
package handle

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MaxLength is the largest handle in bytes (CSI spec allows 256; tools that
// put handles into labels and file names want less).
const MaxLength = 128

// Kind is the kind of the object that a handle stands for.
type Kind string

// Kinds of objects that have handles.
const (
	NVMePartition Kind = "NVMePartition"
	Volume        Kind = "Volume"
	Snapshot      Kind = "Snapshot"
)

// ErrMalformed: the text is not a handle.
var ErrMalformed = errors.New("malformed handle")

var tokens = map[Kind]string{NVMePartition: "partition", Volume: "volume", Snapshot: "snapshot"}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	uidPattern  = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// Handle names one object in one life: a recreated object of the same name has
// another UID and so another handle.
type Handle struct {
	Kind Kind
	// Namespace is empty for cluster-scoped kinds.
	Namespace string
	Name      string
	UID       string
}

// String is the handle's text, `<kind>:<namespace>:<name>:<uid>`.
func (h Handle) String() string {
	return strings.Join([]string{tokens[h.Kind], h.Namespace, h.Name, h.UID}, ":")
}

// Validate tells what is wrong with the handle; its errors are ErrMalformed.
func (h Handle) Validate() error {
	if _, known := tokens[h.Kind]; !known {
		return fmt.Errorf("%w: unknown kind %q", ErrMalformed, h.Kind)
	}
	if namespaced := h.Kind == NVMePartition; namespaced != (h.Namespace != "") {
		return fmt.Errorf("%w: kind %s with namespace %q", ErrMalformed, h.Kind, h.Namespace)
	}
	if h.Namespace != "" && (!namePattern.MatchString(h.Namespace) || strings.Contains(h.Namespace, ".")) {
		return fmt.Errorf("%w: namespace %q is not a DNS label", ErrMalformed, h.Namespace)
	}
	if !namePattern.MatchString(h.Name) || strings.Contains(h.Name, "..") {
		return fmt.Errorf("%w: name %q is not a DNS subdomain", ErrMalformed, h.Name)
	}
	if !uidPattern.MatchString(h.UID) {
		return fmt.Errorf("%w: uid %q is not a canonical UUID", ErrMalformed, h.UID)
	}
	if n := len(h.String()); n > MaxLength {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, n, MaxLength)
	}
	return nil
}

// Parse reads a handle. What it accepts is exactly what String writes.
func Parse(s string) (Handle, error) {
	if len(s) > MaxLength {
		return Handle{}, fmt.Errorf("%w: %d bytes, at most %d", ErrMalformed, len(s), MaxLength)
	}
	parts := strings.Split(s, ":")
	if len(parts) != 4 {
		return Handle{}, fmt.Errorf("%w: %q is not <kind>:<namespace>:<name>:<uid>", ErrMalformed, s)
	}
	h := Handle{Namespace: parts[1], Name: parts[2], UID: parts[3]}
	for kind, token := range tokens {
		if token == parts[0] {
			h.Kind = kind
		}
	}
	if h.Kind == "" {
		return Handle{}, fmt.Errorf("%w: unknown kind %q in %q", ErrMalformed, parts[0], s)
	}
	if err := h.Validate(); err != nil {
		return Handle{}, err
	}
	return h, nil
}
