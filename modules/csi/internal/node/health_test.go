package node_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

var secondPortal = initiator.Portal{Transport: initiator.RDMA, Address: netip.MustParseAddr("fd00::1"), Port: 4421}

// twoPaths makes the volume reachable at two portals, and says so.
func twoPaths(h *host) func(*csi.NodeStageVolumeRequest) {
	v := exported(uid)
	v.Portals = append(v.Portals, secondPortal)
	h.must(h.kernel.Export(v))
	return h.withContext(func(c *publishcontext.Context) { c.Portals = append(c.Portals, secondPortal) })
}

// health is what is reported, as "STATUS Reason".
func (h *host) health() []string {
	h.t.Helper()
	r, err := h.server().NodeGetVolumeHealth(h.t.Context(), &csi.NodeGetVolumeHealthRequest{
		VolumeId: volumeID(uid), VolumePublishPath: h.target(), StagingTargetPath: h.staging(),
	})
	h.must(err)
	if r.GetVolumeHealth().GetVolumeId() != volumeID(uid) {
		h.t.Errorf("health of %s", r.GetVolumeHealth().GetVolumeId())
	}
	var found []string
	for _, e := range r.GetVolumeHealth().GetHealthStatuses() {
		if e.GetMessage() == "" {
			h.t.Errorf("%s has no message", e.GetReason())
		}
		found = append(found, e.GetStatus().String()+" "+e.GetReason())
	}
	return found
}

// What goes wrong with a volume is told by the next call (RR7, ST20, ini-*).
func TestVolumeHealth(t *testing.T) {
	nqn := nqnOf(uid)
	change := func(do func(*host, *initiatortest.Volume)) func(*host) {
		return func(h *host) {
			v := exported(uid)
			v.Portals = append(v.Portals, secondPortal)
			do(h, &v)
			h.must(h.kernel.Export(v))
		}
	}
	for name, test := range map[string]struct {
		harm func(*host)
		want []string
	}{
		"nothing": {harm: func(*host) {}},
		"one path down": {
			harm: func(h *host) { h.must(h.kernel.SetPath(nqn, secondPortal, "connecting")) }, want: []string{"DEGRADED PathDown"},
		},
		"all paths down": {
			harm: func(h *host) { h.must(h.kernel.SetState(nqn, "connecting")) }, want: []string{"INACCESSIBLE NoLivePath"},
		},
		"given up by the kernel": {
			harm: func(h *host) {
				h.must(h.kernel.SetPath(nqn, portal, ""))
				h.must(h.kernel.SetPath(nqn, secondPortal, ""))
			},
			want: []string{"INACCESSIBLE NotConnected"},
		},
		"device gone": {
			harm: change(func(_ *host, v *initiatortest.Volume) { v.Disabled = true }), want: []string{"INACCESSIBLE DeviceGone"},
		},
		"wrong identity": {
			harm: change(func(_ *host, v *initiatortest.Volume) { v.UUID = identity.NamespaceUUID("another") }), want: []string{"INACCESSIBLE WrongIdentity"},
		},
		"another device, the old one still mounted": {
			harm: func(h *host) {
				change(func(_ *host, v *initiatortest.Volume) { v.Disabled = true })(h)
				change(func(*host, *initiatortest.Volume) {})(h)
			},
			want: []string{"INACCESSIBLE LostDeviceMounted"},
		},
		"read-only after an error": {
			harm: func(h *host) { h.fs.Remount(h.staging(), "ro") }, want: []string{"DEGRADED ReadOnlyFilesystem"},
		},
		"errors that the kernel has found": {
			harm: func(h *host) { h.fs.Change(nqn, func(m *filesystemtest.Medium) { m.Errors = 2 }) }, want: []string{"DEGRADED FilesystemErrors"},
		},
		"shut down by the kernel": {
			harm: func(h *host) { h.fs.Remount(h.staging(), "rw", "shutdown") }, want: []string{"INACCESSIBLE FilesystemShutDown"},
		},
		"unmounted behind our back": {
			harm: func(h *host) {
				h.must(h.fs.Unmount(h.target()))
				h.must(h.fs.Unmount(h.staging()))
			},
			want: []string{"INACCESSIBLE NotMounted"},
		},
		"a filesystem that answers with an error": {
			harm: func(h *host) {
				h.fs.Fault = func(op string) error {
					if strings.HasPrefix(op, "statfs ") {
						return unix.EIO
					}
					return nil
				}
			},
			want: []string{"INACCESSIBLE FilesystemFailed"},
		},
		"two things at once": {
			harm: func(h *host) {
				h.must(h.kernel.SetPath(nqn, portal, "resetting"))
				h.fs.Remount(h.staging(), "ro")
			},
			want: []string{"DEGRADED PathDown", "DEGRADED ReadOnlyFilesystem"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage(twoPaths(h)))
			h.must(h.publish())
			if got := h.health(); got != nil {
				t.Fatalf("healthy: %q", got)
			}
			test.harm(h)
			if diff := cmp.Diff(test.want, h.health()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHealthOfWhatIsNotHere(t *testing.T) {
	h := newHost(t)
	for id, want := range map[string]codes.Code{"": codes.InvalidArgument, "x": codes.NotFound, volumeID(uid): codes.NotFound} {
		_, err := h.server().NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: id})
		wantCode(t, err, want)
	}
	_, err := h.server().NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: volumeID(uid), StagingTargetPath: "some/path"})
	wantCode(t, err, codes.InvalidArgument)
}

// A stage that failed for the volume's health may be asked about (CSI spec).
func TestHealthOfAVolumeThatCouldNotBeStaged(t *testing.T) {
	h := newHost(t)
	v := exported(uid)
	v.AllowedHosts = nil
	h.must(h.kernel.Export(v))
	wantCode(t, h.stage(), codes.Unavailable)
	if diff := cmp.Diff([]string{"INACCESSIBLE NotConnected"}, h.health()); diff != "" {
		t.Error(diff)
	}
}

// BM7: a filesystem that hangs costs no call more than its deadline.
func TestHealthAndStatsDoNotHang(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	h.fs.Fault = func(op string) error {
		if strings.HasPrefix(op, "statfs ") {
			<-release
		}
		return nil
	}
	s := h.server()
	for range 2 {
		ctx, cancel := contextWithTimeout(t, 20*time.Millisecond)
		defer cancel()
		r, err := s.NodeGetVolumeHealth(ctx, &csi.NodeGetVolumeHealthRequest{VolumeId: volumeID(uid)})
		if err != nil || len(r.GetVolumeHealth().GetHealthStatuses()) != 1 {
			t.Errorf("got %v, %v, want a filesystem that does not answer", r, err)
		}
		ctx, cancel = contextWithTimeout(t, 20*time.Millisecond)
		defer cancel()
		_, err = s.NodeGetVolumeStats(ctx, &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID(uid), VolumePath: h.staging()})
		wantCode(t, err, codes.DeadlineExceeded)
	}
}

func TestStats(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	h.must(h.publish())
	stats := func(path string) (*csi.NodeGetVolumeStatsResponse, error) {
		return h.server().NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID(uid), VolumePath: path})
	}
	for _, path := range []string{h.staging(), h.target()} {
		r, err := stats(path)
		h.must(err)
		u := r.GetUsage()
		if len(u) != 2 || u[0].GetUnit() != csi.VolumeUsage_BYTES || u[0].GetTotal() != oldSize || u[0].GetUsed() != oldSize/4 ||
			u[0].GetAvailable() != oldSize-oldSize/4 || u[1].GetUnit() != csi.VolumeUsage_INODES || u[1].GetTotal() != 1000 || u[1].GetUsed() != 10 {
			t.Errorf("at %s: %v", path, u)
		}
	}
	for path, want := range map[string]codes.Code{"": codes.InvalidArgument, "some/path": codes.NotFound, h.dir: codes.NotFound} {
		_, err := stats(path)
		wantCode(t, err, want)
	}
	_, err := h.server().NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID(otherUID), VolumePath: h.target()})
	wantCode(t, err, codes.NotFound) // SE8
}

func TestStatsOfRawBlock(t *testing.T) {
	h := newHost(t)
	h.must(h.stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = blockCapability() }))
	h.must(h.publish(func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = blockCapability() }))
	r, err := h.server().NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID(uid), VolumePath: h.target()})
	h.must(err)
	if u := r.GetUsage(); len(u) != 1 || u[0].GetUnit() != csi.VolumeUsage_BYTES || u[0].GetTotal() != oldSize {
		t.Errorf("usage %v, want the size", u)
	}
	if got := h.health(); got != nil {
		t.Errorf("health %q of a raw block volume", got)
	}
}

// A pod keeps the device node that it was given, also when the device is gone.
func TestHealthOfALostRawBlockDevice(t *testing.T) {
	h := newHost(t)
	h.must(h.stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = blockCapability() }))
	h.must(h.publish(func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = blockCapability() }))
	// Somebody holds it, so that the next device gets another name.
	held, err := h.initiator().Hold(t.Context(), h.device())
	h.must(err)
	defer held.Close()
	v := exported(uid)
	v.Disabled = true
	h.must(h.kernel.Export(v))
	h.must(h.kernel.Export(exported(uid)))
	if diff := cmp.Diff([]string{"INACCESSIBLE LostDeviceMounted"}, h.health()); diff != "" {
		t.Error(diff)
	}
	_, err = h.server().NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID(uid), VolumePath: h.target()})
	wantCode(t, err, codes.FailedPrecondition)
}

func TestStorageHealth(t *testing.T) {
	h := newHost(t)
	health := func() string {
		r, err := h.server().NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
		h.must(err)
		var texts []string
		for _, b := range r.GetBackendHealth() {
			texts = append(texts, b.GetStatus().String()+" "+b.GetReason()+": "+b.GetMessage())
		}
		return strings.Join(texts, "\n")
	}
	if got := health(); got != "" {
		t.Errorf("without connections: %s", got)
	}
	h.must(h.stage(twoPaths(h)))
	if got := health(); got != "" {
		t.Errorf("healthy: %s", got)
	}
	h.must(h.kernel.SetPath(nqnOf(uid), portal, "connecting"))
	if got, want := health(), "STORAGE_DEGRADED PathsDown: 1 of 2 connections are down: tcp://10.0.0.1:4420 (1)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	h.must(h.kernel.SetState(nqnOf(uid), "connecting"))
	if got := health(); !strings.HasPrefix(got, "STORAGE_UNREACHABLE NoLivePath: 2 of 2") {
		t.Errorf("got %s", got)
	}
}
