// Package publishcontext is the content of the CSI publish context: what
// ControllerPublishVolume tells the node about one attachment.
//
// Both ends are ours but may be of neighbouring versions, and what comes in
// passed through other hands: an unknown version or key is refused, and no
// value may hold a comma or a control byte (known fault SE4).
package publishcontext

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

// ErrMalformed: the map is not a publish context of this version.
var ErrMalformed = errors.New("malformed publish context")

const version = "1"

// Keys of the map.
const (
	keyVersion             = "version"
	keyNQN                 = "nqn"
	keyNSID                = "nsid"
	keyNamespaceUUID       = "namespace-uuid"
	keyNamespaceNGUID      = "namespace-nguid"
	keyPortals             = "portals" // tcp://10.0.0.1:4420 rdma://[fd00::1]:4420
	keyHostNQN             = "host-nqn"
	keyAttachmentNamespace = "attachment-namespace"
	keyAttachmentName      = "attachment-name"
	keyAttachmentUID       = "attachment-uid"
	keyAttachmentID        = "attachment-id"
	keyFilesystemUUID      = "filesystem-uuid"
	keyZeroed              = "zeroed"
	keyRecordedType        = "recorded-filesystem-type"
	keyRecordedUUID        = "recorded-filesystem-uuid"
	keyRecordedAt          = "recorded-filesystem-formatted-at"
	keyTraceparent         = "traceparent"
	keyAttachedAt          = "attached-at"
)

// Context is a publish context.
type Context struct {
	// Namespace is what the device must be.
	Namespace initiator.Identity
	// Portals are where the subsystem listens, and the only places to look
	// (known fault ST23).
	Portals []initiator.Portal
	// HostNQN is the host that the target admits; a node with another one must
	// not connect.
	HostNQN string
	// Attachment is the object that admits it, and carries the format record.
	Attachment formatonce.AttachmentRef
	// AttachmentID is this lifetime of the attachment.
	AttachmentID string
	// FilesystemUUID is what a new filesystem gets (identity.FilesystemUUID).
	FilesystemUUID string
	// Zeroed: the backend is known to return zeros for what was never written.
	Zeroed bool
	// Recorded is the finished format record; the zero Record when none was
	// finished at the time of the publish. Unfinished ones do not travel.
	Recorded formatonce.Record
	// Traceparent is the W3C trace context of the provisioning; may be empty.
	Traceparent string
	// AttachedAt is when the attachment was made, by the API server's clock; may
	// be zero.
	AttachedAt time.Time
}

var (
	uuidPattern        = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	namePattern        = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	idPattern          = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	traceparentPattern = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
)

// maxPortals bounds what one volume can make a node connect to.
const maxPortals = 16

// Validate tells what is wrong; its errors are ErrMalformed.
func (c Context) Validate() error {
	if err := c.Namespace.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if n := len(c.Portals); n == 0 || n > maxPortals {
		return fmt.Errorf("%w: %d portals, want 1 to %d", ErrMalformed, n, maxPortals)
	}
	for _, p := range c.Portals {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	if err := initiator.ValidateNQN(c.HostNQN); err != nil {
		return fmt.Errorf("%w: host: %w", ErrMalformed, err)
	}
	for _, field := range []struct {
		key, value string
		pattern    *regexp.Regexp
		optional   bool
	}{
		{keyAttachmentNamespace, c.Attachment.Namespace, namePattern, false},
		{keyAttachmentName, c.Attachment.Name, namePattern, false},
		{keyAttachmentUID, c.Attachment.UID, idPattern, false},
		{keyAttachmentID, c.AttachmentID, idPattern, false},
		{keyFilesystemUUID, c.FilesystemUUID, uuidPattern, false},
		{keyTraceparent, c.Traceparent, traceparentPattern, true},
	} {
		if (field.value != "" || !field.optional) && !field.pattern.MatchString(field.value) {
			return fmt.Errorf("%w: %s %q does not match %s", ErrMalformed, field.key, field.value, field.pattern)
		}
	}
	if !c.Recorded.Finished() {
		return nil
	}
	if _, err := filesystem.ParseType(string(c.Recorded.Type)); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMalformed, keyRecordedType, err)
	}
	if !uuidPattern.MatchString(c.Recorded.UUID) {
		return fmt.Errorf("%w: %s %q is not a canonical UUID", ErrMalformed, keyRecordedUUID, c.Recorded.UUID)
	}
	return nil
}

// Encode writes a valid context as a map.
func (c Context) Encode() (map[string]string, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := map[string]string{
		keyVersion:             version,
		keyNQN:                 c.Namespace.NQN,
		keyNSID:                strconv.FormatUint(uint64(c.Namespace.NSID), 10),
		keyNamespaceUUID:       c.Namespace.UUID,
		keyPortals:             strings.Join(initiator.PortalTexts(c.Portals), " "),
		keyHostNQN:             c.HostNQN,
		keyAttachmentNamespace: c.Attachment.Namespace,
		keyAttachmentName:      c.Attachment.Name,
		keyAttachmentUID:       c.Attachment.UID,
		keyAttachmentID:        c.AttachmentID,
		keyFilesystemUUID:      c.FilesystemUUID,
		keyZeroed:              strconv.FormatBool(c.Zeroed),
	}
	if c.Namespace.NGUID != "" {
		m[keyNamespaceNGUID] = c.Namespace.NGUID
	}
	if c.Traceparent != "" {
		m[keyTraceparent] = c.Traceparent
	}
	if !c.AttachedAt.IsZero() {
		m[keyAttachedAt] = c.AttachedAt.UTC().Format(time.RFC3339)
	}
	if c.Recorded.Finished() {
		m[keyRecordedType] = string(c.Recorded.Type)
		m[keyRecordedUUID] = c.Recorded.UUID
		m[keyRecordedAt] = c.Recorded.FormattedAt.UTC().Format(time.RFC3339)
	}
	return m, nil
}

var required = []string{keyVersion, keyNQN, keyNSID, keyNamespaceUUID, keyPortals, keyHostNQN, keyAttachmentNamespace,
	keyAttachmentName, keyAttachmentUID, keyAttachmentID, keyFilesystemUUID, keyZeroed}

var optional = []string{keyNamespaceNGUID, keyTraceparent, keyAttachedAt, keyRecordedType, keyRecordedUUID, keyRecordedAt}

// Decode reads what Encode writes, and nothing else.
func Decode(m map[string]string) (Context, error) {
	if err := checkShape(m); err != nil {
		return Context{}, err
	}
	c := Context{
		Namespace: initiator.Identity{NQN: m[keyNQN], UUID: m[keyNamespaceUUID], NGUID: m[keyNamespaceNGUID]},
		HostNQN:   m[keyHostNQN],
		Attachment: formatonce.AttachmentRef{
			Namespace: m[keyAttachmentNamespace], Name: m[keyAttachmentName], UID: m[keyAttachmentUID],
		},
		AttachmentID:   m[keyAttachmentID],
		FilesystemUUID: m[keyFilesystemUUID],
		Zeroed:         m[keyZeroed] == "true",
		Traceparent:    m[keyTraceparent],
	}
	nsid, err := strconv.ParseUint(m[keyNSID], 10, 32)
	if err != nil || strconv.FormatUint(nsid, 10) != m[keyNSID] {
		return Context{}, fmt.Errorf("%w: %s %q is not a number", ErrMalformed, keyNSID, m[keyNSID])
	}
	c.Namespace.NSID = uint32(nsid)
	if v := m[keyZeroed]; v != "true" && v != "false" {
		return Context{}, fmt.Errorf("%w: %s %q, want true or false", ErrMalformed, keyZeroed, v)
	}
	if c.Portals, err = initiator.ParsePortals(strings.Split(m[keyPortals], " ")); err != nil {
		return Context{}, fmt.Errorf("%w: %s: %w", ErrMalformed, keyPortals, err)
	}
	if at := m[keyAttachedAt]; at != "" {
		if c.AttachedAt, err = time.Parse(time.RFC3339, at); err != nil {
			return Context{}, fmt.Errorf("%w: %s %q is not a time", ErrMalformed, keyAttachedAt, at)
		}
	}
	if c.Recorded, err = decodeRecord(m); err != nil {
		return Context{}, err
	}
	return c, c.Validate()
}

// Traceparent is the trace context in a map that nobody has checked yet.
func Traceparent(m map[string]string) string { return m[keyTraceparent] }

func checkShape(m map[string]string) error {
	if v := m[keyVersion]; v != version {
		return fmt.Errorf("%w: version %q, this node reads %q", ErrMalformed, v, version)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(required, key) && !slices.Contains(optional, key) {
			return fmt.Errorf("%w: unknown key %q", ErrMalformed, key)
		}
		if strings.ContainsFunc(m[key], func(r rune) bool { return r == ',' || r < ' ' || r > '~' }) {
			return fmt.Errorf("%w: %s %q holds a comma or a byte that is not printable ASCII", ErrMalformed, key, m[key])
		}
	}
	for _, key := range required {
		if m[key] == "" {
			return fmt.Errorf("%w: %s is missing", ErrMalformed, key)
		}
	}
	return nil
}

// decodeRecord is all three keys or none.
func decodeRecord(m map[string]string) (formatonce.Record, error) {
	present := 0
	for _, key := range []string{keyRecordedType, keyRecordedUUID, keyRecordedAt} {
		if m[key] != "" {
			present++
		}
	}
	if present == 0 {
		return formatonce.Record{}, nil
	}
	at, err := time.Parse(time.RFC3339, m[keyRecordedAt])
	if present != 3 || err != nil || at.IsZero() {
		return formatonce.Record{}, fmt.Errorf("%w: %s %q, %s %q, %s %q: want type, UUID and time", ErrMalformed,
			keyRecordedType, m[keyRecordedType], keyRecordedUUID, m[keyRecordedUUID], keyRecordedAt, m[keyRecordedAt])
	}
	return formatonce.Record{Type: filesystem.Type(m[keyRecordedType]), UUID: m[keyRecordedUUID], FormattedAt: at}, nil
}
