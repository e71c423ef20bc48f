package node_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
)

func contextWithTimeout(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// BM1, BM4: kubelet repeats itself.
func TestPublishIsOneMount(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	for range 5 {
		h.must(h.publish())
	}
	if n := len(h.fs.Mounts()); n != 2 {
		t.Fatalf("%d mounts, want 2", n)
	}
	for range 2 {
		h.must(h.unpublish())
		if _, err := os.Lstat(h.target()); !os.IsNotExist(err) {
			t.Errorf("target path left: %v", err)
		}
	}
	h.wantStaged()
}

func TestPublishReadOnly(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	readOnly := func(r *csi.NodePublishVolumeRequest) { r.Readonly = true }
	for range 2 {
		h.must(h.publish(readOnly))
	}
	if m := h.fs.Mounts()[1]; !m.ReadOnly() || h.fs.Mounts()[0].ReadOnly() {
		t.Errorf("mounts %v, want only the target read-only", h.fs.Mounts())
	}
	wantCode(t, h.publish(), codes.AlreadyExists) // published, incompatible
	wantCode(t, h.publish(readOnly, func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = blockCapability() }), codes.InvalidArgument)
}

func TestPublishNeedsTheStageItIsPublishedFor(t *testing.T) {
	for name, change := range map[string]func(*host, *csi.NodePublishVolumeRequest){
		"other attachment": func(h *host, r *csi.NodePublishVolumeRequest) {
			c := contextOf(uid)
			c.AttachmentID = "eeeeeeee-0000-4000-8000-00000000000e"
			r.PublishContext = h.encode(c)
		},
		"other staging path": func(h *host, r *csi.NodePublishVolumeRequest) { r.StagingTargetPath = filepath.Join(h.dir, "x") },
		"other volume": func(h *host, r *csi.NodePublishVolumeRequest) {
			r.VolumeId, r.PublishContext = volumeID(otherUID), h.encode(contextOf(otherUID))
		},
		"other host": func(h *host, r *csi.NodePublishVolumeRequest) {
			c := contextOf(uid)
			c.HostNQN = identity.HostNQN("worker-2")
			r.PublishContext = h.encode(c)
		},
		"handle and context of different volumes (SE8)": func(h *host, r *csi.NodePublishVolumeRequest) {
			r.PublishContext = h.encode(contextOf(otherUID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage())
			wantCode(t, h.publish(func(r *csi.NodePublishVolumeRequest) { change(h, r) }), codes.FailedPrecondition)
			h.wantStaged()
		})
	}
	h := newHost(t)
	wantCode(t, h.publish(), codes.FailedPrecondition)
}

// The recorded trap: the connection was lost and made again; the staging path
// still shows the dead device (known fault BM11). It is refused, taken away, and made
// anew.
func TestPublishRefusesADeadStage(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	v := exported(uid)
	v.Disabled = true
	h.must(h.kernel.Export(v)) // the head goes
	h.must(h.kernel.Export(exported(uid)))
	err := h.publish()
	wantCode(t, err, codes.FailedPrecondition)
	if !strings.Contains(err.Error(), "no longer has") {
		t.Errorf("message %v", err)
	}
	wantCode(t, h.stage(), codes.AlreadyExists) // nor does a stage hide it
	h.must(h.unstage())
	h.wantNothing()
	h.must(h.stage())
	h.wantStaged()
}

func TestPublishSingleWriter(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	single := func(r *csi.NodePublishVolumeRequest) {
		r.VolumeCapability.AccessMode.Mode = csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	}
	for range 2 {
		h.must(h.publish(single))
	}
	second := func(r *csi.NodePublishVolumeRequest) { r.TargetPath = filepath.Join(h.dir, "second") }
	wantCode(t, h.publish(single, second), codes.FailedPrecondition)
	h.must(h.publish(second)) // SINGLE_NODE_WRITER may
}

func TestUnstageRefusesWhilePublished(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	h.must(h.publish())
	err := h.unstage()
	wantCode(t, err, codes.FailedPrecondition)
	if !strings.Contains(err.Error(), h.target()) {
		t.Errorf("message %v does not name the holder %s (ST17)", err, h.target())
	}
	if n := len(h.fs.Mounts()); n != 2 {
		t.Errorf("%d mounts, want both untouched", n)
	}
}

// ST22, design.md §4: without a record, mount table and sysfs are enough.
func TestUnstageWithoutARecord(t *testing.T) {
	for name, lose := range map[string]func(*host){
		"missing": func(h *host) { h.must(h.records.Delete(volumeID(uid))) },
		"corrupt": func(h *host) {
			files, err := filepath.Glob(filepath.Join(h.dir, "staged", "*"))
			h.must(err)
			h.must(os.WriteFile(files[0], []byte("{"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage())
			lose(h)
			wantCode(t, h.publish(), codes.FailedPrecondition)
			h.must(h.unstage())
			h.wantNothing()
		})
	}
}

// SE8: a path is released only for the volume that is there.
func TestPathsOfOtherVolumesAreLeftAlone(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	h.must(h.publish())
	s := h.server()
	_, err := s.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: volumeID(otherUID), StagingTargetPath: h.staging()})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = s.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID(otherUID), TargetPath: h.target()})
	wantCode(t, err, codes.FailedPrecondition)
	if n := len(h.fs.Mounts()); n != 2 {
		t.Errorf("%d mounts, want 2", n)
	}
}

// ST22: what umount says about a dead filesystem does not matter once it is
// gone; a mount that stays is an error and keeps the connection.
func TestUnmountErrors(t *testing.T) {
	for errno, op := range map[unix.Errno]string{unix.EIO: " done", unix.ESTALE: " done", unix.ENOTCONN: " done"} {
		h := newHost(t)
		h.must(h.stage())
		h.must(h.publish())
		h.fs.Fault = func(got string) error {
			if strings.HasPrefix(got, "unmount ") && strings.HasSuffix(got, op) {
				return errno
			}
			return nil
		}
		h.must(h.unpublish())
		h.must(h.unstage())
		h.wantNothing()
	}
	h := newHost(t)
	h.must(h.stage())
	h.fs.Fault = func(op string) error {
		if strings.HasPrefix(op, "unmount ") {
			return unix.EBUSY
		}
		return nil
	}
	wantCode(t, h.unstage(), codes.Internal)
	h.wantStaged()
}

func TestUnpublishNeverRemovesContents(t *testing.T) {
	h := newHost(t)
	h.must(os.Mkdir(h.target(), 0o750))
	precious := filepath.Join(h.target(), "precious")
	h.must(os.WriteFile(precious, nil, 0o600))
	if err := h.unpublish(); err == nil {
		t.Error("answered OK")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
