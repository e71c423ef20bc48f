package node_test

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/formatonce/formatoncetest"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
	"github.com/distort-io/distort/modules/csi/internal/node"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

const (
	nodeID   = "worker-1"
	uid      = "aaaaaaaa-0000-4000-8000-00000000000a"
	otherUID = "bbbbbbbb-0000-4000-8000-00000000000b"
)

var (
	portal     = initiator.Portal{Transport: initiator.TCP, Address: netip.MustParseAddr("10.0.0.1"), Port: 4420}
	attachment = formatonce.AttachmentRef{Namespace: "distort-system", Name: "att-1", UID: "cccccccc-0000-4000-8000-00000000000c"}
	noon       = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	errKilled  = errors.New("killed")
)

// host is one machine with everything that survives the driver's process.
type host struct {
	t        *testing.T
	kernel   *initiatortest.Kernel
	fs       *filesystemtest.Host
	recorder *formatoncetest.Recorder
	records  *records
	dir      string

	mu sync.Mutex
	// ops are the effects so far. When killOp has come killAt times, it and all
	// later ones fail, as for a dead process: killed.
	ops    []string
	killOp string
	killAt int
	killed bool
}

// records are staging records whose effects can be killed.
type records struct {
	*staging.Store
	fault func(string) error
}

func (r *records) Save(record staging.Record) error {
	return r.around("record "+string(record.State), func() error { return r.Store.Save(record) })
}

func (r *records) Delete(handle string) error {
	return r.around("forget", func() error { return r.Store.Delete(handle) })
}

func (r *records) around(op string, effect func() error) error {
	if err := r.fault(op); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	return r.fault(op + " done")
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), recorder: &formatoncetest.Recorder{}}
	var err error
	h.kernel, err = initiatortest.New(t.TempDir())
	h.must(err)
	h.fs = filesystemtest.New(func(path string) (filesystemtest.Device, bool) {
		nqn, number, found := h.kernel.Resolve(path)
		return filesystemtest.Device{Medium: nqn, Number: number, Size: h.kernel.Size(path)}, found
	})
	h.records = &records{Store: staging.New(filepath.Join(h.dir, "staged")), fault: h.effect}
	h.kernel.Fault, h.fs.Fault, h.recorder.Fault = h.effect, h.effect, h.effect
	for _, u := range []string{uid, otherUID} {
		h.must(h.kernel.Export(exported(u)))
	}
	h.must(os.Mkdir(h.staging(), 0o750))
	return h
}

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) effect(op string) error {
	// Whether there is time for a rescan depends on the machine's load; it
	// changes nothing.
	if strings.HasPrefix(op, "rescan ") {
		return nil
	}
	// Every host has temporary directories of its own; without them, effects have
	// the same names on all.
	for _, dir := range []string{h.dir, h.kernel.Dev()} {
		op = strings.ReplaceAll(op, dir, "")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	if op == h.killOp && h.killAt > 0 {
		h.killAt--
		h.killed = h.killAt == 0
	}
	if h.killed {
		return errKilled
	}
	return nil
}

// revive forgets the kill.
func (h *host) revive() { h.killAtEffect("", 0) }

// killAtEffect kills the process at the nth effect of this name from now on. It
// goes by name, because the end of a write that the driver did not wait for may
// come at any time between other effects.
func (h *host) killAtEffect(op string, nth int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops, h.killOp, h.killAt, h.killed = nil, op, nth, false
}

func (h *host) staging() string { return filepath.Join(h.dir, "staging") }
func (h *host) target() string  { return filepath.Join(h.dir, "target") }

func (h *host) initiator() *initiator.Initiator {
	return initiator.New(initiator.Options{
		Kernel: h.kernel, Sysfs: h.kernel.Sysfs(), Dev: h.kernel.Dev(), NamespaceTimeout: 200 * time.Millisecond, PathGrace: time.Second,
	})
}

// device is the volume's.
func (h *host) device() initiator.Device {
	h.t.Helper()
	d, err := h.initiator().Find(h.t.Context(), contextOf(uid).Namespace)
	h.must(err)
	return d
}

// server is a new process of the driver on this host.
func (h *host) server() *node.Server {
	h.t.Helper()
	s, err := node.New(node.Options{
		NodeID: nodeID, Topology: map[string]string{"topology.storage.distort.io/network-domain": "a"}, MaxVolumes: 32,
		Initiator:   h.initiator(),
		Filesystems: filesystem.New(h.fs.Options()), Records: h.records, Recorder: h.recorder,
		Timeout: time.Minute, Now: func() time.Time { return noon },
	})
	h.must(err)
	return s
}

func nqnOf(u string) string { return identity.VolumeNQN(identity.ExternalID(u)) }

func exported(u string) initiatortest.Volume {
	return initiatortest.Volume{
		NQN: nqnOf(u), NSID: 1, UUID: identity.NamespaceUUID(u), NGUID: identity.NamespaceNGUID(u), Size: 64 << 20,
		Portals: []initiator.Portal{portal}, AllowedHosts: []string{identity.HostNQN(nodeID)},
	}
}

func volumeID(u string) string {
	return handle.Handle{Kind: handle.NVMePartition, Namespace: "distort-system", Name: "pvc-1", UID: u}.String()
}

func contextOf(u string) publishcontext.Context {
	ref := attachment
	if u != uid {
		ref.Name = "att-2"
	}
	return publishcontext.Context{
		Namespace: initiator.Identity{NQN: nqnOf(u), NSID: 1, UUID: identity.NamespaceUUID(u), NGUID: identity.NamespaceNGUID(u)},
		Portals:   []initiator.Portal{portal}, HostNQN: identity.HostNQN(nodeID),
		Attachment: ref, AttachmentID: "dddddddd-0000-4000-8000-00000000000d", FilesystemUUID: identity.FilesystemUUID(u), Zeroed: true,
	}
}

func (h *host) encode(c publishcontext.Context) map[string]string {
	h.t.Helper()
	m, err := c.Encode()
	h.must(err)
	return m
}

func mountCapability(fsType string, flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: flags}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func blockCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
	}
}

func (h *host) stageRequest() *csi.NodeStageVolumeRequest {
	return &csi.NodeStageVolumeRequest{
		VolumeId: volumeID(uid), StagingTargetPath: h.staging(), VolumeCapability: mountCapability("ext4"), PublishContext: h.encode(contextOf(uid)),
	}
}

func (h *host) publishRequest() *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId: volumeID(uid), StagingTargetPath: h.staging(), TargetPath: h.target(), VolumeCapability: mountCapability("ext4"),
		PublishContext: h.encode(contextOf(uid)),
	}
}

func (h *host) unstageRequest() *csi.NodeUnstageVolumeRequest {
	return &csi.NodeUnstageVolumeRequest{VolumeId: volumeID(uid), StagingTargetPath: h.staging()}
}

func (h *host) unpublishRequest() *csi.NodeUnpublishVolumeRequest {
	return &csi.NodeUnpublishVolumeRequest{VolumeId: volumeID(uid), TargetPath: h.target()}
}

func (h *host) stage(change ...func(*csi.NodeStageVolumeRequest)) error {
	r := h.stageRequest()
	for _, c := range change {
		c(r)
	}
	_, err := h.server().NodeStageVolume(h.t.Context(), r)
	return err
}

func (h *host) publish(change ...func(*csi.NodePublishVolumeRequest)) error {
	r := h.publishRequest()
	for _, c := range change {
		c(r)
	}
	_, err := h.server().NodePublishVolume(h.t.Context(), r)
	return err
}

func (h *host) unstage() error {
	_, err := h.server().NodeUnstageVolume(h.t.Context(), h.unstageRequest())
	return err
}

func (h *host) unpublish() error {
	_, err := h.server().NodeUnpublishVolume(h.t.Context(), h.unpublishRequest())
	return err
}

// wantStaged checks what one staged filesystem volume is, exactly.
func (h *host) wantStaged() {
	h.t.Helper()
	if n := h.kernel.Controllers(nqnOf(uid)); n != 1 {
		h.t.Errorf("%d controllers, want 1", n)
	}
	if m := h.fs.Mounts(); len(m) != 1 || m[0].Path != h.staging() || m[0].FSType != "ext4" {
		h.t.Errorf("mounts %v, want ext4 at %s", m, h.staging())
	}
	if r, found, err := h.records.Load(volumeID(uid)); !found || err != nil || r.State != staging.Staged {
		h.t.Errorf("staging record %+v, %t, %v, want staged", r, found, err)
	}
	if r := h.recorder.Get(attachment); !r.Finished() || r.UUID != identity.FilesystemUUID(uid) {
		h.t.Errorf("format record %+v, want a finished one", r)
	}
}

// wantNothing checks that the volume left no trace.
func (h *host) wantNothing() {
	h.t.Helper()
	if n := h.kernel.Controllers(nqnOf(uid)); n != 0 {
		h.t.Errorf("%d controllers left", n)
	}
	if m := h.fs.Mounts(); len(m) != 0 {
		h.t.Errorf("mounts left: %v", m)
	}
	if _, found, err := h.records.Load(volumeID(uid)); found || err != nil {
		h.t.Errorf("staging record left: %t, %v", found, err)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code %s (%v), want %s", got, err, want)
	}
}

// eachKill runs prepare on a fresh host, then do with a kill at each of its
// effects in turn, and then check.
func eachKill(t *testing.T, prepare, do func(*host) error, check func(t *testing.T, h *host)) {
	t.Helper()
	whole := newHost(t)
	whole.must(prepare(whole))
	whole.revive()
	whole.must(do(whole))
	whole.mu.Lock()
	ops := slices.Clone(whole.ops)
	whole.mu.Unlock()
	if len(ops) == 0 {
		t.Fatal("no effects")
	}
	seen := map[string]int{}
	for _, op := range ops {
		seen[op]++
		nth := seen[op]
		t.Run(op[:min(len(op), 12)], func(t *testing.T) {
			h := newHost(t)
			h.must(prepare(h))
			h.killAtEffect(op, nth)
			// An error of umount is no error once the mount is gone, nor one of a
			// deletion once sysfs shows no controller.
			tolerated := strings.HasSuffix(op, " done") && (strings.HasPrefix(op, "unmount ") || strings.HasPrefix(op, "delete "))
			if err := do(h); err == nil && !tolerated {
				t.Fatalf("killed at %q, answered OK", op)
			}
			h.revive()
			check(t, h)
		})
	}
}

func nothing(*host) error { return nil }

func with(m map[string]string, key, value string) map[string]string {
	c := maps.Clone(m)
	c[key] = value
	return c
}
