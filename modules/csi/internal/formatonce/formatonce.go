// Package formatonce holds the one rule by which a device is ever formatted
// (design.md §4, known fault ST16).
//
// The volume's filesystem UUID is derived from the volume's UID, so it is known
// before mkfs runs. The control plane's record decides:
//
//	finished   the device must hold exactly that filesystem, else refuse
//	started    mkfs did not finish, and nothing was ever mounted: again, by force
//	none       the device must be blank, else refuse, naming what is there
//
// The order on a blank device is: record "started", mkfs, look at the result,
// record "finished", and only then may the caller mount. A kill between any two
// steps leaves a state of the table above.
package formatonce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/filesystem"
)

// AttachmentRef names the NVMeVolumeAttachment that carries the record.
type AttachmentRef struct {
	Namespace, Name, UID string
}

// Record is what the control plane knows about a volume's filesystem. The zero
// value is a volume that was never formatted.
type Record struct {
	Type filesystem.Type
	UUID string
	// StartedAt is when mkfs was about to run, FormattedAt when its result had
	// been read back; zero when it did not happen.
	StartedAt, FormattedAt time.Time
	// RecoveredAt is when the journal of a volume that many nodes read was replayed.
	RecoveredAt time.Time
}

// Started tells whether mkfs may have run.
func (r Record) Started() bool { return !r.StartedAt.IsZero() || !r.FormattedAt.IsZero() }

// Finished tells whether the filesystem was made and read back.
func (r Record) Finished() bool { return !r.FormattedAt.IsZero() }

// Recovered tells whether nodes only read the filesystem from now on.
func (r Record) Recovered() bool { return !r.RecoveredAt.IsZero() }

// Recorder keeps the record in the control plane. Save returns only when the
// record cannot be lost any more.
type Recorder interface {
	// Load returns the zero Record when there is none.
	Load(ctx context.Context, ref AttachmentRef) (Record, error)
	Save(ctx context.Context, ref AttachmentRef, r Record) error
}

// Filesystems looks at devices and formats them; filesystem.Host is one.
type Filesystems interface {
	Probe(ctx context.Context, device string) (filesystem.Content, error)
	Format(ctx context.Context, f filesystem.Format) error
}

// What callers tell apart.
var (
	// ErrRefused: formatting, or using what is there, could destroy or hand out
	// somebody's data.
	ErrRefused = errors.New("refused to use the device")
	// ErrRecord: the control plane's record could not be read or written.
	ErrRecord = errors.New("filesystem record is not available")
)

// Formatter applies the rule.
type Formatter struct {
	filesystems Filesystems
	recorder    Recorder
	now         func() time.Time
}

// New returns a formatter; now is the clock of the records, nil for time.Now.
func New(f Filesystems, r Recorder, now func() time.Time) *Formatter {
	if now == nil {
		now = time.Now
	}
	return &Formatter{filesystems: f, recorder: r, now: now}
}

// Request is one device that is to be mounted.
type Request struct {
	// Device is held open by the caller, so that its name cannot change hands.
	Device string
	// Type is the filesystem asked for; empty takes the recorded one, or ext4.
	Type filesystem.Type
	// UUID is what a new filesystem gets.
	UUID string
	// Zeroed: see filesystem.Format.
	Zeroed bool
	// Options are further arguments of mkfs for the type; nil means none.
	Options func(filesystem.Type) ([]string, error)
	// NeverFormat, when not empty, is why the device may be checked but not
	// formatted: it is mounted, or this host only reads.
	NeverFormat string
	Attachment  AttachmentRef
	// Recorded is the record that came with the publish context; only a
	// finished one counts, since the context may be older than the record.
	Recorded Record
}

// Ensure returns the type of the filesystem that the device holds and that may
// be mounted.
func (f *Formatter) Ensure(ctx context.Context, r Request) (filesystem.Type, error) {
	record := r.Recorded
	if !record.Finished() {
		var err error
		if record, err = f.recorder.Load(ctx, r.Attachment); err != nil {
			return "", fmt.Errorf("%w: load it from attachment %s/%s: %w", ErrRecord, r.Attachment.Namespace, r.Attachment.Name, err)
		}
	}
	want, err := wanted(r, record)
	if err != nil {
		return "", err
	}
	content, err := f.filesystems.Probe(ctx, r.Device)
	if err != nil {
		return "", err
	}
	switch {
	case record.Finished():
		if !content.Is(record.Type, record.UUID) {
			return "", fmt.Errorf("%w: recorded filesystem is %s %s, %s holds %s", ErrRefused, record.Type, record.UUID, r.Device, content.Description)
		}
		return want, nil
	case r.NeverFormat != "":
		return "", fmt.Errorf("%w: no finished filesystem is recorded and %s must not be formatted: %s", ErrRefused, r.Device, r.NeverFormat)
	case record.Started():
		if content.Recognised && !content.Is(want, r.UUID) {
			return "", fmt.Errorf("%w: formatting as %s %s was begun, %s holds %s", ErrRefused, want, r.UUID, r.Device, content.Description)
		}
	case !content.Blank:
		return "", fmt.Errorf("%w: no filesystem is recorded, yet %s is not blank: it holds %s", ErrRefused, r.Device, content.Description)
	}
	return want, f.format(ctx, r, want, record)
}

// wanted is the type to use; a request that contradicts the record is refused.
func wanted(r Request, record Record) (filesystem.Type, error) {
	if !record.Started() {
		if r.Type == "" {
			return filesystem.Ext4, nil
		}
		return r.Type, nil
	}
	if _, err := filesystem.ParseType(string(record.Type)); err != nil {
		return "", fmt.Errorf("%w: record: %w", ErrRefused, err)
	}
	if r.Type != "" && r.Type != record.Type {
		return "", fmt.Errorf("%w: asked for %s, recorded filesystem is %s %s", ErrRefused, r.Type, record.Type, record.UUID)
	}
	if !record.Finished() && record.UUID != r.UUID {
		return "", fmt.Errorf("%w: formatting was begun with UUID %s, the volume's is %s", ErrRefused, record.UUID, r.UUID)
	}
	return record.Type, nil
}

func (f *Formatter) format(ctx context.Context, r Request, want filesystem.Type, record Record) error {
	var options []string
	if r.Options != nil {
		var err error
		if options, err = r.Options(want); err != nil {
			return err
		}
	}
	again := record.Started()
	if !again {
		record = Record{Type: want, UUID: r.UUID, StartedAt: f.now()}
		if err := f.save(ctx, r.Attachment, record); err != nil {
			return err
		}
	}
	err := f.filesystems.Format(ctx, filesystem.Format{Device: r.Device, Type: want, UUID: r.UUID, Zeroed: r.Zeroed, Force: again, Options: options})
	if err != nil {
		return err
	}
	content, err := f.filesystems.Probe(ctx, r.Device)
	if err != nil {
		return fmt.Errorf("after mkfs: %w", err)
	}
	if !content.Is(want, r.UUID) {
		return fmt.Errorf("%w: after mkfs %s holds %s, want %s %s", ErrRefused, r.Device, content.Description, want, r.UUID)
	}
	record.FormattedAt = f.now()
	return f.save(ctx, r.Attachment, record)
}

func (f *Formatter) save(ctx context.Context, ref AttachmentRef, r Record) error {
	if err := f.recorder.Save(ctx, ref, r); err != nil {
		return fmt.Errorf("%w: save it to attachment %s/%s: %w", ErrRecord, ref.Namespace, ref.Name, err)
	}
	return nil
}
