package node_test

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

// copied is the record of a filesystem that was made in another volume.
var copied = formatonce.Record{Type: filesystem.Ext4, UUID: otherUID, FormattedAt: noon}

// holdsCopy puts a copy of a filesystem that was in use on the volume.
func (h *host) holdsCopy() {
	h.fs.Change(nqnOf(uid), func(m *filesystemtest.Medium) {
		*m = filesystemtest.Medium{Type: "ext4", UUID: otherUID, Size: 32 << 20, Journal: true}
	})
}

// read stages as one of many readers, by the attachment of this name.
func (h *host) read(attachment string) error {
	return h.stage(func(r *csi.NodeStageVolumeRequest) {
		r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	}, h.withContext(func(c *publishcontext.Context) { c.Attachment.Name, c.Recorded = attachment, copied }))
}

func firstRef() formatonce.AttachmentRef {
	ref := attachment
	ref.Name = identity.AttachmentName(uid)
	return ref
}

// wantRead checks what a reader's stage is.
func (h *host) wantRead(replays int) {
	h.t.Helper()
	if m := h.fs.Mounts(); len(m) != 1 || m[0].Path != h.staging() || !m[0].ReadOnly() {
		h.t.Errorf("mounts %v, want a read-only one at %s", m, h.staging())
	}
	if d := h.device(); !h.fs.Refuses(d.Number) {
		h.t.Errorf("device %s takes writes", d.Path)
	}
	if m := h.fs.Medium(nqnOf(uid)); m.Replays != replays || m.Formats != 0 {
		h.t.Errorf("%d replays of the journal and %d runs of mkfs, want %d and none", m.Replays, m.Formats, replays)
	}
}

// The first reader of a copy replays its journal and grows it, and no reader writes
// after it has recorded that.
func TestTheFirstReaderReplaysTheJournalOfACopy(t *testing.T) {
	h := newHost(t)
	h.holdsCopy()
	h.must(h.read(firstRef().Name))
	h.wantRead(1)
	if m := h.fs.Medium(nqnOf(uid)); m.Journal || m.Size != h.device().Size {
		t.Errorf("filesystem %+v, want one that fills %d bytes", m, h.device().Size)
	}
	want := copied
	want.RecoveredAt = noon
	if got := h.recorder.Get(firstRef()); got != want {
		t.Errorf("record %+v, want %+v", got, want)
	}
	h.must(h.read(firstRef().Name))
	h.wantRead(1)
	h.must(h.unstage())
	h.wantNothing()

	// What comes to the journal now is not replayed, by the first reader or another.
	h.fs.Change(nqnOf(uid), func(m *filesystemtest.Medium) { m.Journal = true })
	for _, name := range []string{firstRef().Name, identity.SharedAttachmentName(uid, nodeID)} {
		wantCode(t, h.read(name), codes.FailedPrecondition)
		if n := h.fs.Medium(nqnOf(uid)).Replays; n != 1 {
			t.Errorf("%s: %d replays", name, n)
		}
		h.must(h.unstage())
	}
}

func TestAFurtherReaderNeverWrites(t *testing.T) {
	h := newHost(t)
	h.holdsCopy()
	h.fs.Change(nqnOf(uid), func(m *filesystemtest.Medium) { m.Journal = false })
	h.must(h.read(identity.SharedAttachmentName(uid, nodeID)))
	h.wantRead(0)
	if m := h.fs.Medium(nqnOf(uid)); m.Size != 32<<20 {
		t.Errorf("the filesystem was grown to %d bytes", m.Size)
	}
	if r := h.recorder.Get(firstRef()); r.Recovered() {
		t.Errorf("recorded %+v", r)
	}
}

// Wherever the first reader dies, the next stage finishes it: at the end the journal
// was replayed once, and the record says so only if the device took no writes any more.
func TestTheFirstReaderKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	prepare := func(h *host) error {
		h.holdsCopy()
		return nil
	}
	eachKill(t, prepare, func(h *host) error { return h.read(firstRef().Name) }, func(t *testing.T, h *host) {
		if h.recorder.Get(firstRef()).Recovered() && !h.fs.Refuses(h.device().Number) {
			t.Error("recorded while the device takes writes")
		}
		h.must(h.read(firstRef().Name))
		h.wantRead(1)
		h.must(h.unstage())
		h.wantNothing()
	})
}

func TestAReaderNeverFormats(t *testing.T) {
	h := newHost(t)
	wantCode(t, h.stage(func(r *csi.NodeStageVolumeRequest) {
		r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	}), codes.FailedPrecondition)
	if m := h.fs.Medium(nqnOf(uid)); m.Formats != 0 {
		t.Errorf("%d runs of mkfs", m.Formats)
	}
}
