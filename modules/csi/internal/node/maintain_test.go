package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

// A portal that nobody answered at when the volume was staged is tried again by
// later calls about the volume, whichever those are.
func TestAPathThatWasDownIsMadeLater(t *testing.T) {
	for name, call := range map[string]func(*host) error{
		"publish": func(h *host) error { return h.publish() },
		"stats": func(h *host) error {
			_, err := h.server().NodeGetVolumeStats(h.t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: volumeID(uid), VolumePath: h.staging()})
			return err
		},
		"health":           func(h *host) error { h.health(); return nil },
		"a restart":        func(h *host) error { h.server().Resume(h.t.Context()); return nil },
		"a repeated stage": func(h *host) error { return h.stage(twoPaths(h)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.must(h.stage(h.withContext(func(c *publishcontext.Context) { c.Portals = append(c.Portals, secondPortal) })))
			if n := h.kernel.Controllers(nqnOf(uid)); n != 1 {
				t.Fatalf("%d controllers, want 1", n)
			}
			twoPaths(h)
			connected := make(chan struct{}, 1)
			h.kernel.Fault = func(op string) error {
				if op == "connect "+nqnOf(uid)+" done" {
					connected <- struct{}{}
				}
				return nil
			}
			h.must(call(h))
			select {
			case <-connected:
			case <-time.After(time.Minute):
				t.Fatal("no connect")
			}
			if n := h.kernel.Controllers(nqnOf(uid)); n != 2 {
				t.Errorf("%d controllers, want 2", n)
			}
		})
	}
}

// ST19: a shutdown makes connections impatient; one that was called off leaves
// nothing behind once the driver is there again.
func TestAShutdownThatWasCalledOffIsForgotten(t *testing.T) {
	h := newHost(t)
	h.must(h.stage(func(r *csi.NodeStageVolumeRequest) {
		r.VolumeContext = map[string]string{"ctrl-loss-tmo": "600", "reconnect-delay": "20"}
	}))
	parameters := func() map[string]string {
		m := map[string]string{}
		for _, name := range []string{"ctrl_loss_tmo", "reconnect_delay", "fast_io_fail_tmo", "state"} {
			files, err := filepath.Glob(filepath.Join(h.kernel.Sysfs(), "class/nvme/*", name))
			h.must(err)
			for _, f := range files {
				text, err := os.ReadFile(f)
				h.must(err)
				m[name] += strings.TrimSpace(string(text))
			}
		}
		return m
	}
	own := map[string]string{"ctrl_loss_tmo": "600", "reconnect_delay": "20", "fast_io_fail_tmo": "off", "state": "live"}
	if diff := cmp.Diff(own, parameters()); diff != "" {
		t.Fatal(diff)
	}
	h.server().FailFast(t.Context())
	if diff := cmp.Diff(map[string]string{"ctrl_loss_tmo": "10", "reconnect_delay": "5", "fast_io_fail_tmo": "5", "state": "live"}, parameters()); diff != "" {
		t.Error(diff)
	}
	h.wantStaged()
	h.server().Resume(t.Context())
	if diff := cmp.Diff(own, parameters()); diff != "" {
		t.Error(diff)
	}
}

// Nothing is connected for a volume that is being taken away, or whose stage
// did not end.
func TestNothingIsConnectedBehindAnUnstage(t *testing.T) {
	h := newHost(t)
	h.must(h.stage(twoPaths(h)))
	h.must(h.unstage())
	h.server().Resume(t.Context())
	h.wantNothing()

	v := exported(uid)
	v.AllowedHosts = nil
	h.must(h.kernel.Export(v))
	if err := h.stage(); err == nil {
		t.Fatal("staged without admission")
	}
	h.must(h.kernel.Export(exported(uid)))
	h.server().Resume(t.Context())
	if n := h.kernel.Controllers(nqnOf(uid)); n != 0 {
		t.Errorf("%d controllers", n)
	}
}

// The record of a stage is a help; what is mounted and connected is enough to
// stage again, to expand and to tell how a volume is.
func TestRestageWithoutMemory(t *testing.T) {
	h := newHost(t)
	h.must(h.stage())
	h.must(h.publish())
	h.must(os.RemoveAll(filepath.Join(h.dir, "staged")))
	h.growTarget()
	if size, err := h.expand(); err != nil || size != newSize {
		t.Errorf("expand: %d, %v", size, err)
	}
	if got := h.health(); got != nil {
		t.Errorf("health: %q", got)
	}
	h.must(h.stage())
	for range 2 {
		h.must(h.publish())
	}
	if n, m := h.kernel.Controllers(nqnOf(uid)), h.fs.Mounts(); n != 1 || len(m) != 2 {
		t.Errorf("%d controllers and mounts %v, want 1 and 2", n, m)
	}
	if n := h.fs.Medium(nqnOf(uid)).Formats; n != 1 {
		t.Errorf("%d runs of mkfs, want 1", n)
	}
}
