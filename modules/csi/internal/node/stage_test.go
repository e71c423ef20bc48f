package node_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

func (h *host) withContext(change func(*publishcontext.Context)) func(*csi.NodeStageVolumeRequest) {
	return func(r *csi.NodeStageVolumeRequest) {
		c := contextOf(uid)
		change(&c)
		r.PublishContext = h.encode(c)
	}
}

func TestStageFormatsAndMountsOnce(t *testing.T) {
	h := newHost(t)
	for range 3 {
		h.must(h.stage())
	}
	h.wantStaged()
	if n := h.fs.Medium(nqnOf(uid)).Formats; n != 1 {
		t.Errorf("%d runs of mkfs, want 1", n)
	}
	for _, run := range h.fs.Ran() {
		if name := run[0]; name != "blkid" && name != "mkfs.ext4" {
			t.Errorf("ran %q: connect must not fork", run)
		}
	}
	for range 2 {
		h.must(h.unstage())
	}
	h.wantNothing()
}

// PU8: the record precedes the first side effect.
func TestStageRecordsBeforeItActs(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	if h.ops[0] != "record staging" || h.ops[1] != "record staging done" {
		t.Errorf("effects began with %q", h.ops[:2])
	}
}

func TestStageUsesParametersAndRecordedFilesystem(t *testing.T) {
	h := newHost(t)
	h.must(h.stage(func(r *csi.NodeStageVolumeRequest) {
		r.VolumeContext = map[string]string{"ctrl-loss-tmo": "60", "mkfs-options": "-i 8192", "storage.kubernetes.io/csiProvisionerIdentity": "x"}
	}))
	if text := h.kernel.Written()[0]; !strings.Contains(text, "ctrl_loss_tmo=60,") {
		t.Errorf("connect options %q", text)
	}
	ran := h.fs.Ran()
	if line := strings.Join(ran[1], " "); !strings.Contains(line, " -i 8192 ") {
		t.Errorf("mkfs was %q", line)
	}
	h.must(h.unstage())
	loads := h.recorder.Loads()
	h.must(h.stage(h.withContext(func(c *publishcontext.Context) { c.Recorded = h.recorder.Get(attachment) }),
		func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mountCapability("") }))
	h.wantStaged()
	if h.recorder.Loads() != loads {
		t.Error("asked for the record although the publish context has it")
	}
}

// SE8, ST1, design.md §6: a context of another volume, host or attachment.
func TestStageRefusesAContextThatIsNotItsOwn(t *testing.T) {
	for name, change := range map[string]func(*publishcontext.Context){
		"other host":            func(c *publishcontext.Context) { c.HostNQN = identity.HostNQN("worker-2") },
		"other subsystem":       func(c *publishcontext.Context) { c.Namespace.NQN = nqnOf(otherUID) },
		"other namespace":       func(c *publishcontext.Context) { c.Namespace.UUID = identity.NamespaceUUID(otherUID) },
		"other filesystem UUID": func(c *publishcontext.Context) { c.FilesystemUUID = identity.FilesystemUUID(otherUID) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			wantCode(t, h.stage(h.withContext(change)), codes.FailedPrecondition)
			h.wantNothing()
			if len(h.ops) != 0 {
				t.Errorf("did %q", h.ops)
			}
		})
	}
}

// ST23: a volume that was at another address is sought where the publish context says,
// and nowhere else.
func TestStageConnectsToThePortalsOfItsContext(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	h.must(h.unstage())
	moved := portal
	moved.Address = netip.MustParseAddr("10.0.0.9")
	v := exported(uid)
	v.Portals = []initiator.Portal{moved}
	h.must(h.kernel.Export(v))
	before := len(h.kernel.Written())
	h.must(h.stage(h.withContext(func(c *publishcontext.Context) { c.Portals = v.Portals })))
	written := h.kernel.Written()[before:]
	if len(written) != 1 || !strings.Contains(written[0], "traddr=10.0.0.9,") {
		t.Errorf("connected by %q, want 10.0.0.9 alone", written)
	}
}

// What the volume's device must be, and what is refused with which code; and a
// refusal after which kubelet forgets the volume leaves nothing behind.
func TestStageRefusals(t *testing.T) {
	finished := formatonce.Record{Type: filesystem.Ext4, UUID: identity.FilesystemUUID(uid), FormattedAt: noon}
	holds := func(m filesystemtest.Medium) func(*host) {
		return func(h *host) { h.fs.Change(nqnOf(uid), func(old *filesystemtest.Medium) { *old = m }) }
	}
	for name, test := range map[string]struct {
		prepare func(*host)
		change  func(*csi.NodeStageVolumeRequest)
		code    codes.Code
		says    string
	}{
		"foreign data on a new volume (ST16)": {
			prepare: holds(filesystemtest.Medium{Type: "xfs", UUID: otherUID}), code: codes.FailedPrecondition, says: "TYPE=xfs",
		},
		"unreadable device (ST16)": {prepare: holds(filesystemtest.Medium{ReadError: unix.EIO}), code: codes.Internal, says: "input/output error"},
		"recorded filesystem is gone": {
			prepare: func(h *host) { h.recorder.Put(attachment, finished) }, code: codes.FailedPrecondition, says: "holds nothing",
		},
		"recorded as ext4, asked for xfs": {
			prepare: func(h *host) { h.recorder.Put(attachment, finished) },
			change:  func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mountCapability("xfs") },
			code:    codes.FailedPrecondition, says: "asked for xfs",
		},
		"many readers of a volume that was never formatted": {
			change: func(r *csi.NodeStageVolumeRequest) {
				r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
			},
			code: codes.FailedPrecondition, says: "read by many nodes",
		},
		"identity mismatch (ST8, ST11)": {
			prepare: func(h *host) {
				v := exported(uid)
				v.UUID = otherUID
				h.must(h.kernel.Export(v))
			},
			code: codes.FailedPrecondition, says: "uuid " + otherUID,
		},
		"mkfs options of another filesystem": {
			change: func(r *csi.NodeStageVolumeRequest) {
				r.VolumeContext = map[string]string{"mkfs-options": "-d agcount=4"}
			},
			code: codes.InvalidArgument, says: "mkfs-options",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			if test.prepare != nil {
				test.prepare(h)
			}
			err := h.stage(func(r *csi.NodeStageVolumeRequest) {
				if test.change != nil {
					test.change(r)
				}
			})
			wantCode(t, err, test.code)
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("message %v does not say %q", err, test.says)
			}
			h.wantNothing()
			if n := h.fs.Medium(nqnOf(uid)).Formats; n != 0 {
				t.Errorf("%d runs of mkfs", n)
			}
		})
	}
}

// Answers that promise nothing to kubelet keep the record for an unstage.
func TestStageThatMayWorkLaterIsRetryable(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*host)
		code    codes.Code
	}{
		"not admitted yet": {func(h *host) {
			v := exported(uid)
			v.AllowedHosts = nil
			h.must(h.kernel.Export(v))
		}, codes.Unavailable},
		"namespace disabled": {func(h *host) {
			v := exported(uid)
			v.Disabled = true
			h.must(h.kernel.Export(v))
		}, codes.Unavailable},
		"nothing listens": {func(h *host) { h.must(h.kernel.Unexport(nqnOf(uid))); h.must(h.kernel.Unexport(nqnOf(otherUID))) }, codes.Unavailable},
		"record not readable": {func(h *host) {
			h.recorder.Fault = func(string) error { return unix.ECONNREFUSED }
		}, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			test.prepare(h)
			wantCode(t, h.stage(), test.code)
			if _, found, err := h.records.Load(volumeID(uid)); !found || err != nil {
				t.Errorf("staging record: %t, %v; want it for the unstage", found, err)
			}
			h.recorder.Fault = h.effect
			h.must(h.kernel.Export(exported(uid)))
			h.must(h.stage())
			h.wantStaged()
		})
	}
}

// Design.md §6: an old attachment's mount is not built upon; its record alone
// is no obstacle (the host was rebooted).
func TestStageForAnotherAttachment(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	later := h.withContext(func(c *publishcontext.Context) { c.AttachmentID = "eeeeeeee-0000-4000-8000-00000000000e" })
	wantCode(t, h.stage(later), codes.FailedPrecondition)
	h.wantStaged()

	h.must(h.fs.Unmount(h.staging()))
	h.must(h.stage(later))
	if r, _, _ := h.records.Load(volumeID(uid)); !strings.HasPrefix(r.AttachmentID, "eeee") {
		t.Errorf("record of attachment %s, want the later", r.AttachmentID)
	}
}

func TestStageRefusesAnOccupiedStagingPath(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	other := h.stageRequest()
	other.VolumeId, other.PublishContext = volumeID(otherUID), h.encode(contextOf(otherUID))
	_, err := h.server().NodeStageVolume(t.Context(), other)
	if err == nil {
		t.Fatal("two volumes at one path")
	}
	h.wantStaged()
}

// BM5: one volume that hangs costs another nothing, and a second call on it is
// Aborted, not queued.
func TestAHungVolumeIsBusyAndBlocksNoOther(t *testing.T) {
	h := newHost(t)
	release, hung := make(chan struct{}), make(chan struct{})
	h.kernel.Fault = func(op string) error {
		if op == "connect "+nqnOf(uid) {
			close(hung)
			<-release
		}
		return nil
	}
	s := h.server()
	first := make(chan error)
	go func() {
		_, err := s.NodeStageVolume(t.Context(), h.stageRequest())
		first <- err
	}()
	<-hung
	_, err := s.NodeUnstageVolume(t.Context(), h.unstageRequest())
	wantCode(t, err, codes.Aborted)

	other := h.stageRequest()
	other.VolumeId, other.PublishContext, other.StagingTargetPath = volumeID(otherUID), h.encode(contextOf(otherUID)), h.target()
	if _, err := s.NodeStageVolume(t.Context(), other); err != nil {
		t.Errorf("another volume: %v", err)
	}
	close(release)
	h.must(<-first)
}

func TestRawBlock(t *testing.T) {
	h := newHost(t)
	raw := func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = blockCapability() }
	rawTarget := func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = blockCapability() }
	h.fs.Change(nqnOf(uid), func(m *filesystemtest.Medium) { m.Data = map[int64]byte{0: 1} }) // whatever it holds
	for range 2 {
		h.must(h.stage(raw))
	}
	for range 3 { // BM2
		h.must(h.publish(rawTarget))
	}
	if m := h.fs.Mounts(); len(m) != 1 || m[0].Path != h.target() || m[0].DeviceNode() == "" {
		t.Fatalf("mounts %v, want the device node", m)
	}
	if h.fs.Medium(nqnOf(uid)).Formats != 0 {
		t.Error("formatted a raw volume")
	}
	wantCode(t, h.unstage(), codes.FailedPrecondition) // ST17: still bound
	wantCode(t, h.publish(), codes.FailedPrecondition) // not as a filesystem
	h.must(h.unpublish())
	h.must(h.unstage())
	h.wantNothing()
}

func TestDeadlineIsDeadlineExceeded(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	h.must(h.kernel.SetState(nqnOf(uid), "connecting")) // ST5
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond)
	defer cancel()
	_, err := h.server().NodeStageVolume(ctx, h.stageRequest())
	wantCode(t, err, codes.DeadlineExceeded)
	h.wantStaged()
}
