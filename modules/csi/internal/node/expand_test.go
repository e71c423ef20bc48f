package node_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

const (
	oldSize = 64 << 20
	newSize = 128 << 20
)

// growTarget makes the volume larger at the target.
func (h *host) growTarget() {
	h.t.Helper()
	v := exported(uid)
	v.Size = newSize
	h.must(h.kernel.Export(v))
}

func (h *host) expand(change ...func(*csi.NodeExpandVolumeRequest)) (int64, error) {
	r := &csi.NodeExpandVolumeRequest{
		VolumeId: volumeID(uid), VolumePath: h.target(), StagingTargetPath: h.staging(), CapacityRange: &csi.CapacityRange{RequiredBytes: newSize},
	}
	for _, c := range change {
		c(r)
	}
	response, err := h.server().NodeExpandVolume(h.t.Context(), r)
	return response.GetCapacityBytes(), err
}

// filesystemSize is that of the volume's filesystem.
func (h *host) filesystemSize() int64 { return h.fs.Medium(nqnOf(uid)).Size }

func asXFS(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mountCapability("xfs") }

// EX1, EX2, EX7: the device first, then the filesystem, found by what is
// mounted; and what is answered was read back.
func TestExpand(t *testing.T) {
	for name, test := range map[string]struct {
		stage   []func(*csi.NodeStageVolumeRequest)
		publish []func(*csi.NodePublishVolumeRequest)
		change  func(*host, *csi.NodeExpandVolumeRequest)
		lost    bool // the event of the target
	}{
		"ext4":                     {},
		"the event was lost (EX1)": {lost: true},
		"xfs": {
			stage:   []func(*csi.NodeStageVolumeRequest){asXFS},
			publish: []func(*csi.NodePublishVolumeRequest){func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = mountCapability("xfs") }},
		},
		"at the staging path": {change: func(h *host, r *csi.NodeExpandVolumeRequest) { r.VolumePath = h.staging() }},
		"through a read-only publish": {
			publish: []func(*csi.NodePublishVolumeRequest){func(r *csi.NodePublishVolumeRequest) { r.Readonly = true }},
		},
		"limit equal to the size (EX8)": {change: func(_ *host, r *csi.NodeExpandVolumeRequest) { r.CapacityRange.LimitBytes = newSize }},
		"rounded up by the backend (EX8)": {change: func(_ *host, r *csi.NodeExpandVolumeRequest) {
			r.CapacityRange.RequiredBytes = newSize - 5
		}},
		"no size asked for": {change: func(_ *host, r *csi.NodeExpandVolumeRequest) { r.CapacityRange = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage(test.stage...))
			h.must(h.publish(test.publish...))
			h.kernel.Unnoticed = test.lost
			h.growTarget()
			for range 2 {
				size, err := h.expand(func(r *csi.NodeExpandVolumeRequest) {
					if test.change != nil {
						test.change(h, r)
					}
				})
				if err != nil || size != newSize {
					t.Fatalf("%d, %v, want %d", size, err, newSize)
				}
			}
			if got := h.filesystemSize(); got != newSize {
				t.Errorf("the filesystem has %d bytes, want %d", got, newSize)
			}
		})
	}
}

func TestExpandRawBlock(t *testing.T) {
	h := newHost(t)
	raw := func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = blockCapability() }
	h.must(h.stage(raw))
	h.must(h.publish(func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = blockCapability() }))
	h.growTarget()
	for _, path := range []string{h.target(), h.staging()} {
		size, err := h.expand(func(r *csi.NodeExpandVolumeRequest) { r.VolumePath, r.VolumeCapability = path, blockCapability() })
		if err != nil || size != newSize {
			t.Errorf("at %s: %d, %v, want %d", path, size, err, newSize)
		}
	}
	if len(h.fs.Ran()) != 0 {
		t.Errorf("ran %q on a raw device", h.fs.Ran())
	}
}

func TestExpandRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*host)
		change  func(*csi.NodeExpandVolumeRequest)
		code    codes.Code
		says    []string
	}{
		"no volume":         {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumeId = "" }, code: codes.InvalidArgument},
		"no path":           {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumePath = "" }, code: codes.InvalidArgument},
		"a negative size":   {change: func(r *csi.NodeExpandVolumeRequest) { r.CapacityRange.RequiredBytes = -1 }, code: codes.InvalidArgument},
		"limit below size":  {change: func(r *csi.NodeExpandVolumeRequest) { r.CapacityRange.LimitBytes = 1 }, code: codes.InvalidArgument},
		"not a volume":      {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumeId = "x" }, code: codes.NotFound},
		"relative path":     {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumePath = "some/path" }, code: codes.NotFound},
		"not there":         {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumePath += "-not" }, code: codes.NotFound},
		"another's path":    {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumeId = volumeID(otherUID) }, code: codes.NotFound},
		"a bad access mode": {change: func(r *csi.NodeExpandVolumeRequest) { r.VolumeCapability = &csi.VolumeCapability{} }, code: codes.InvalidArgument},
		"a device that stays small": {
			change: func(r *csi.NodeExpandVolumeRequest) { r.CapacityRange.RequiredBytes = 2 * newSize }, code: codes.Unavailable,
			says: []string{"134217728", "268435456"},
		},
		"a device larger than the limit": {
			change: func(r *csi.NodeExpandVolumeRequest) { r.CapacityRange = &csi.CapacityRange{LimitBytes: oldSize} }, code: codes.OutOfRange,
			says: []string{"134217728", "67108864"},
		},
		"no path to the target": {prepare: func(h *host) { h.must(h.kernel.SetState(nqnOf(uid), "connecting")) }, code: codes.Unavailable},
		"a filesystem made read-only by an error": {
			prepare: func(h *host) { h.fs.Remount(h.staging(), "ro") }, code: codes.FailedPrecondition, says: []string{"read-only"},
		},
		"a mount of a device that is gone": {
			prepare: func(h *host) {
				v := exported(uid)
				v.Disabled = true
				h.must(h.kernel.Export(v))
				h.growTarget()
			},
			code: codes.FailedPrecondition, says: []string{"does not have"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage())
			h.must(h.publish())
			h.growTarget()
			if test.prepare != nil {
				test.prepare(h)
			}
			_, err := h.expand(func(r *csi.NodeExpandVolumeRequest) {
				if test.change != nil {
					test.change(r)
				}
			})
			wantCode(t, err, test.code)
			for _, text := range test.says {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("message %v lacks %q", err, text)
				}
			}
			if got := h.filesystemSize(); got != oldSize {
				t.Errorf("the filesystem has %d bytes, want %d", got, oldSize)
			}
		})
	}
}

// A volume that grew while no node had it grows at the next stage, once.
func TestStageGrowsAFilesystemThatIsSmallerThanItsDevice(t *testing.T) {
	for name, change := range map[string]func(*csi.NodeStageVolumeRequest){
		"ext4": func(*csi.NodeStageVolumeRequest) {},
		"xfs":  asXFS,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage(change))
			h.must(h.unstage())
			h.growTarget()
			for range 2 {
				h.must(h.stage(change))
			}
			if got := h.filesystemSize(); got != newSize {
				t.Errorf("the filesystem has %d bytes, want %d", got, newSize)
			}
			grows := 0
			for _, op := range h.ops {
				if strings.HasPrefix(op, "grow ") && !strings.HasSuffix(op, " done") {
					grows++
				}
			}
			if grows != 1 {
				t.Errorf("%d runs of a program that grows, want 1", grows)
			}
		})
	}
	t.Run("not through a read-only mount", func(t *testing.T) {
		h := newHost(t)
		h.must(h.stage())
		h.must(h.unstage())
		h.growTarget()
		h.must(h.stage(func(r *csi.NodeStageVolumeRequest) { r.VolumeCapability = mountCapability("ext4", "ro") }))
		if got := h.filesystemSize(); got != oldSize {
			t.Errorf("the filesystem has %d bytes, want %d", got, oldSize)
		}
	})
}

func TestExpandKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	prepare := func(h *host) error {
		h.must(h.stage())
		h.must(h.publish())
		h.growTarget()
		return nil
	}
	expand := func(h *host) error { _, err := h.expand(); return err }
	eachKill(t, prepare, expand, func(t *testing.T, h *host) {
		h.must(expand(h))
		if got := h.filesystemSize(); got != newSize {
			t.Errorf("the filesystem has %d bytes, want %d", got, newSize)
		}
	})
}

func checked(r *csi.NodeStageVolumeRequest) {
	r.VolumeContext = map[string]string{"check-filesystem": "true"}
}

// Damage is refused with what was found; nothing is repaired, nothing mounted.
func TestStageChecksTheFilesystemWhenAsked(t *testing.T) {
	for name, xfs := range map[string]bool{"e2fsck": false, "xfs_repair": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			as := func(r *csi.NodeStageVolumeRequest) {
				if xfs {
					asXFS(r)
				}
			}
			checks := func() (n int) {
				for _, line := range h.fs.Ran() {
					if line[0] == name {
						n++
					}
				}
				return n
			}
			h.must(h.stage(as))
			h.must(h.unstage())
			if checks() != 0 {
				t.Error("checked unasked")
			}
			for range 2 { // the second finds it staged
				h.must(h.stage(as, checked))
			}
			if n := checks(); n != 1 {
				t.Errorf("%d checks, want 1", n)
			}
			h.must(h.publish(func(r *csi.NodePublishVolumeRequest) {
				if xfs {
					r.VolumeCapability = mountCapability("xfs")
				}
			}))
			h.must(h.records.Delete(volumeID(uid)))
			h.must(h.stage(as, checked)) // in use, and not remembered
			if n, m := checks(), h.fs.Mounts(); n != 1 || len(m) != 2 {
				t.Errorf("%d checks and mounts %v, want 1 and both", n, m)
			}
			h.must(h.unpublish())
			h.must(h.unstage())
			h.fs.Change(nqnOf(uid), func(m *filesystemtest.Medium) { m.Damage = "Inode 12 has illegal block(s)" })
			err := h.stage(as, checked)
			wantCode(t, err, codes.FailedPrecondition)
			if err == nil || !strings.Contains(err.Error(), "Inode 12") {
				t.Errorf("message %v does not say what was found", err)
			}
			h.wantNothing()
			h.must(h.stage(as)) // who does not ask gets it
		})
	}
}

// A stage that died after its first mount, which replays the journal, has not
// been checked.
func TestStageWithACheckKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	prepare := func(h *host) error {
		h.must(h.stage())
		return h.unstage()
	}
	checks := func(h *host) (n int) {
		for _, line := range h.fs.Ran() {
			if line[0] == "e2fsck" {
				n++
			}
		}
		return n
	}
	eachKill(t, prepare, func(h *host) error { return h.stage(checked) }, func(t *testing.T, h *host) {
		want := checks(h) + 1
		if r, _, _ := h.records.Load(volumeID(uid)); r.State == staging.Staged {
			want-- // only the answer was lost
		}
		h.must(h.stage(checked))
		h.wantStaged()
		if n := checks(h); n != want {
			t.Errorf("%d checks, want %d", n, want)
		}
	})
}
