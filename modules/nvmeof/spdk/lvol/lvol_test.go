package lvol_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/realspdk"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/lvol"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

const mib = 1 << 20

// raw are parameters as text.
type raw string

// MarshalJSON implements json.Marshaler.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// machine is a fake with a file of 256 MiB as the bdev of the device SN1.
type machine struct {
	t      *testing.T
	fake   *spdkfake.Server
	client *rpc.Client
}

func start(t *testing.T, opts ...spdkfake.Option) *machine {
	t.Helper()
	fake, err := spdkfake.Start(filepath.Join(t.TempDir(), "spdk.sock"), opts...)
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, fake: fake}
	m.connect()
	t.Cleanup(func() {
		m.client.Close()
		fake.Close()
		if c := fake.Collisions(); len(c) > 0 {
			t.Errorf("changes of one object in flight together: %v", c)
		}
	})
	fake.AddFile("/disk", 256*mib)
	m.attach()
	return m
}

// connect is a process that has just started.
func (m *machine) connect() {
	if m.client != nil {
		m.client.Close()
	}
	m.client = rpc.New(m.fake.Socket())
}

func (m *machine) volumes() *lvol.Volumes { return lvol.New(m.client) }

func (m *machine) call(method, params string) {
	m.t.Helper()
	if err := m.client.Call(m.t.Context(), method, raw(params), nil); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) attach() {
	m.t.Helper()
	m.call("bdev_aio_create", `{"name":"disk","filename":"/disk","block_size":4096}`)
}

func (m *machine) store() lvol.Store {
	m.t.Helper()
	s, err := m.volumes().EnsureStore(m.t.Context(), lvol.StoreSpec{Device: "SN1", Bdev: "disk"})
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

// volume makes a volume in the store.
func (m *machine) volume(name string, size uint64) lvol.Volume {
	m.t.Helper()
	v, err := m.volumes().Ensure(m.t.Context(), lvol.Spec{StoreUUID: m.store().UUID, Name: name, SizeBytes: size})
	if err != nil {
		m.t.Fatal(err)
	}
	return v
}

const (
	nqn  = "nqn.2026-02.io.distort:volume-a"
	host = "nqn.2026-01.io.distort:host-00000000000000000000000000000001"
)

// export exports the volume and connects a host.
func (m *machine) export(v lvol.Volume) *spdkfake.Host {
	m.t.Helper()
	l, err := nvmeof.ParseListener("tcp://127.0.0.1:4420")
	if err != nil {
		m.t.Fatal(err)
	}
	id := nvmeof.DeriveUUID(nqn)
	if _, err := spdk.New(m.client).Ensure(m.t.Context(), nvmeof.Subsystem{
		NQN: nqn, Serial: "S", AllowedHosts: []string{host}, Listeners: []nvmeof.Listener{l},
		Namespaces: []nvmeof.Namespace{{NSID: 1, DevicePath: v.DevicePath(), UUID: id, NGUID: id.NGUID()}},
	}); err != nil {
		m.t.Fatal(err)
	}
	h, err := m.fake.Connect(host, nqn, l)
	if err != nil {
		m.t.Fatal(err)
	}
	return h
}

func TestStoreIsFoundBeforeItIsMade(t *testing.T) {
	m := start(t)
	first := m.store()
	if first.Name != "lvs_SN1" || first.TotalBytes() != 63*4*mib || first.FreeBytes() != first.TotalBytes() {
		t.Errorf("store %+v", first)
	}
	m.fake.Trace()
	if again := m.store(); again != first {
		t.Errorf("again %+v", again)
	}
	if trace := m.fake.Trace(); len(trace) > 0 {
		t.Errorf("changes %v", trace)
	}
	m.fake.Restart()
	m.attach()
	adopted, err := m.volumes().EnsureStore(t.Context(), lvol.StoreSpec{Device: "SN1", Bdev: "disk", UUID: first.UUID})
	if err != nil || adopted != first {
		t.Errorf("after a restart %+v, %v", adopted, err)
	}
}

func TestWhatWasRecordedIsNeverMadeAnew(t *testing.T) {
	m := start(t)
	lost := nvmeof.DeriveUUID("lost").String()
	if _, err := m.volumes().EnsureStore(t.Context(), lvol.StoreSpec{Device: "SN1", Bdev: "disk", UUID: lost}); !errors.Is(err, lvol.ErrLost) {
		t.Errorf("store: %v", err)
	}
	store := m.store()
	if _, err := m.volumes().Ensure(t.Context(), lvol.Spec{StoreUUID: store.UUID, Name: "a", SizeBytes: mib, UUID: lost}); !errors.Is(err, lvol.ErrLost) {
		t.Errorf("volume: %v", err)
	}
	if all, err := m.volumes().List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("made %v, %v", all, err)
	}
}

func TestStoreRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*machine)
		spec    lvol.StoreSpec
		want    error
	}{
		"device is no name":     {nil, lvol.StoreSpec{Device: "a/b", Bdev: "disk"}, nvmeof.ErrInvalid},
		"device is too long":    {nil, lvol.StoreSpec{Device: strings.Repeat("x", 60), Bdev: "disk"}, nvmeof.ErrInvalid},
		"UUID in upper case":    {nil, lvol.StoreSpec{Device: "SN1", Bdev: "disk", UUID: strings.ToUpper(nvmeof.DeriveUUID("x").String())}, nvmeof.ErrInvalid},
		"no such bdev":          {nil, lvol.StoreSpec{Device: "SN1", Bdev: "none"}, lvol.ErrNotFound},
		"bdev has another one":  {func(m *machine) { m.store() }, lvol.StoreSpec{Device: "SN2", Bdev: "disk"}, lvol.ErrInUse},
		"it is on another bdev": {func(m *machine) { m.store() }, lvol.StoreSpec{Device: "SN1", Bdev: "other"}, lvol.ErrConflict},
		"recorded is another":   {func(m *machine) { m.store() }, lvol.StoreSpec{Device: "SN1", Bdev: "disk", UUID: nvmeof.DeriveUUID("x").String()}, lvol.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t)
			if tc.prepare != nil {
				tc.prepare(m)
			}
			if _, err := m.volumes().EnsureStore(t.Context(), tc.spec); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestDeleteStoreOnlyWhenItIsEmpty(t *testing.T) {
	m := start(t)
	v := m.volume("a", mib)
	if err := m.volumes().DeleteStore(t.Context(), v.StoreUUID); !errors.Is(err, lvol.ErrInUse) {
		t.Errorf("with a volume: %v", err)
	}
	if err := m.volumes().Delete(t.Context(), v.UUID); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.volumes().DeleteStore(t.Context(), v.StoreUUID); err != nil {
			t.Errorf("empty: %v", err)
		}
	}
	if all, err := m.volumes().Stores(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("left %v, %v", all, err)
	}
}

func TestVolume(t *testing.T) {
	for name, version := range map[string]spdkfake.Option{"v26.05": spdkfake.WithVersion(26, 5), "before v23.05": spdkfake.WithVersion(23, 1)} {
		t.Run(name, func(t *testing.T) {
			m := start(t, version)
			store := m.store()
			spec := lvol.Spec{StoreUUID: store.UUID, Name: "a", SizeBytes: 5*mib + 1}
			got, err := m.volumes().Ensure(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			want := lvol.Volume{UUID: got.UUID, Name: "a", StoreUUID: store.UUID, SizeBytes: 8 * mib}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("volume (-want +got):\n%s", d)
			}
			if again, err := m.volumes().Ensure(t.Context(), spec); err != nil || again != got {
				t.Errorf("again %+v, %v", again, err)
			}
			spec.UUID, spec.Name, spec.SizeBytes = got.UUID, "renamed-since", mib
			if adopted, err := m.volumes().Ensure(t.Context(), spec); err != nil || adopted != got {
				t.Errorf("adopted by UUID, never shrunk: %+v, %v", adopted, err)
			}
			spec.SizeBytes = 12 * mib
			if grown, err := m.volumes().Ensure(t.Context(), spec); err != nil || grown.SizeBytes != 12*mib {
				t.Errorf("grown %+v, %v", grown, err)
			}
			thin, err := m.volumes().Ensure(t.Context(), lvol.Spec{StoreUUID: store.UUID, Name: "t", SizeBytes: 1 << 40, Thin: true})
			if err != nil || !thin.Thin || thin.SizeBytes != 1<<40 {
				t.Errorf("thin %+v, %v", thin, err)
			}
		})
	}
}

func TestVolumeRefusals(t *testing.T) {
	m := start(t)
	store := m.store()
	a, thick := m.volume("a", 4*mib), m.volume("thick", 4*mib)
	snap, err := m.volumes().Snapshot(t.Context(), a.UUID, "snap")
	if err != nil {
		t.Fatal(err)
	}
	ensure := func(change func(*lvol.Spec)) func(context.Context) error {
		spec := lvol.Spec{StoreUUID: store.UUID, Name: "b", SizeBytes: mib}
		change(&spec)
		return func(ctx context.Context) error { _, err := m.volumes().Ensure(ctx, spec); return err }
	}
	none := nvmeof.DeriveUUID("none").String()
	for name, tc := range map[string]struct {
		try  func(context.Context) error
		want error
	}{
		"no size":                    {ensure(func(s *lvol.Spec) { s.SizeBytes = 0 }), nvmeof.ErrInvalid},
		"name with a slash":          {ensure(func(s *lvol.Spec) { s.Name = "a/b" }), nvmeof.ErrInvalid},
		"no name":                    {ensure(func(s *lvol.Spec) { s.Name = "" }), nvmeof.ErrInvalid},
		"no such store":              {ensure(func(s *lvol.Spec) { s.StoreUUID = none }), lvol.ErrNotFound},
		"too large":                  {ensure(func(s *lvol.Spec) { s.SizeBytes = 1 << 40 }), lvol.ErrNoSpace},
		"name of a snapshot":         {ensure(func(s *lvol.Spec) { s.Name = "snap" }), lvol.ErrConflict},
		"grow too far":               {func(ctx context.Context) error { _, err := m.volumes().Grow(ctx, thick.UUID, 1<<40); return err }, lvol.ErrNoSpace},
		"grow a snapshot":            {func(ctx context.Context) error { _, err := m.volumes().Grow(ctx, snap.UUID, 8*mib); return err }, lvol.ErrConflict},
		"grow nothing":               {func(ctx context.Context) error { _, err := m.volumes().Grow(ctx, none, mib); return err }, lvol.ErrNotFound},
		"get by a name":              {func(ctx context.Context) error { _, err := m.volumes().Get(ctx, "lvs_SN1/a"); return err }, nvmeof.ErrInvalid},
		"snapshot of a snapshot":     {func(ctx context.Context) error { _, err := m.volumes().Snapshot(ctx, snap.UUID, "s2"); return err }, lvol.ErrConflict},
		"snapshot named as a volume": {func(ctx context.Context) error { _, err := m.volumes().Snapshot(ctx, a.UUID, "a"); return err }, lvol.ErrConflict},
		"clone of a volume":          {func(ctx context.Context) error { _, err := m.volumes().Clone(ctx, a.UUID, "c"); return err }, lvol.ErrConflict},
		"limits out of range": {func(ctx context.Context) error {
			_, err := m.volumes().SetLimits(ctx, a.UUID, lvol.Limits{RWMiB: 1 << 63})
			return err
		}, nvmeof.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.try(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestSnapshotAndClone(t *testing.T) {
	m := start(t)
	a, b := m.volume("a", 8*mib), m.volume("b", 8*mib)
	var first [2]lvol.Volume
	for i := range 2 {
		snap, err := m.volumes().Snapshot(t.Context(), a.UUID, "s1")
		if err != nil || !snap.Snapshot || snap.SizeBytes != 8*mib {
			t.Fatalf("snapshot %+v, %v", snap, err)
		}
		clone, err := m.volumes().Clone(t.Context(), snap.UUID, "c1")
		if err != nil || clone.Origin != "s1" {
			t.Fatalf("clone %+v, %v", clone, err)
		}
		if first[i] = snap; first[0].UUID != snap.UUID {
			t.Error("the second call made another snapshot")
		}
		// A later snapshot comes between the volume and its first one.
		if _, err := m.volumes().Snapshot(t.Context(), a.UUID, "s2"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.volumes().Snapshot(t.Context(), b.UUID, "s1"); !errors.Is(err, lvol.ErrConflict) {
		t.Errorf("another volume's snapshot: %v", err)
	}
	if _, err := m.volumes().Clone(t.Context(), first[0].UUID, "b"); !errors.Is(err, lvol.ErrConflict) {
		t.Errorf("a volume that is no clone of it: %v", err)
	}
	if err := m.volumes().Delete(t.Context(), first[0].UUID); !errors.Is(err, lvol.ErrHasClones) {
		t.Errorf("snapshot with two clones: %v", err)
	}
	clone, err := m.volumes().Clone(t.Context(), first[0].UUID, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.volumes().Delete(t.Context(), clone.UUID); err != nil {
		t.Fatal(err)
	}
	if err := m.volumes().Delete(t.Context(), first[0].UUID); err != nil {
		t.Errorf("snapshot with one clone: %v", err)
	}
}

func TestDeleteNeverUnderAnExport(t *testing.T) {
	m := start(t)
	v := m.volume("a", 8*mib)
	h := m.export(v)
	err := m.volumes().Delete(t.Context(), v.UUID)
	if !errors.Is(err, lvol.ErrInUse) || !strings.Contains(err.Error(), nqn) {
		t.Errorf("exported: %v", err)
	}
	if err := h.Write(1, "still there"); err != nil {
		t.Error(err)
	}
	if grown, err := m.volumes().Grow(t.Context(), v.UUID, 16*mib); err != nil || grown.SizeBytes != 16*mib || !grown.Claimed {
		t.Errorf("grow while it is connected: %+v, %v", grown, err)
	}
	if same, err := m.volumes().Grow(t.Context(), v.UUID, mib); err != nil || same.SizeBytes != 16*mib {
		t.Errorf("a smaller size: %+v, %v", same, err)
	}
	if _, err := spdk.New(m.client).Remove(t.Context(), nqn); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.volumes().Delete(t.Context(), v.UUID); err != nil {
			t.Errorf("unexported: %v", err)
		}
	}
}

func TestLimitsWaitForTheExport(t *testing.T) {
	m := start(t)
	v := m.volume("a", 8*mib)
	want := lvol.Limits{RWIOs: 1500, WMiB: 10}
	short, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	m.fake.Trace()
	if _, err := m.volumes().SetLimits(short, v.UUID, want); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody has it open: %v", err)
	}
	if trace := m.fake.Trace(); len(trace) > 0 {
		t.Errorf("calls that get stuck: %v", trace)
	}
	m.export(v)
	for _, set := range []lvol.Limits{want, want, {RMiB: 5}, {}} {
		expect := set
		if set.RWIOs == 1500 {
			expect.RWIOs = 2000
		}
		if got, err := m.volumes().SetLimits(t.Context(), v.UUID, set); err != nil || got != expect {
			t.Errorf("limits %+v, %v; want %+v", got, err, expect)
		}
	}
}

// life makes a store, a volume that grows, its snapshot and a clone of that.
func life(ctx context.Context, v *lvol.Volumes, bdev string) error {
	store, err := v.EnsureStore(ctx, lvol.StoreSpec{Device: "SN1", Bdev: bdev})
	if err != nil {
		return err
	}
	a, err := v.Ensure(ctx, lvol.Spec{StoreUUID: store.UUID, Name: "a", SizeBytes: 8 * mib})
	if err != nil {
		return err
	}
	if _, err := v.Grow(ctx, a.UUID, 16*mib); err != nil {
		return err
	}
	snap, err := v.Snapshot(ctx, a.UUID, "s")
	if err != nil {
		return err
	}
	_, err = v.Clone(ctx, snap.UUID, "c")
	return err
}

// TestRealVolumes goes through a life twice on a real target, and back.
func TestRealVolumes(t *testing.T) {
	client, dir := realspdk.Client(t)
	bdev := fmt.Sprintf("lvol%d", os.Getpid())
	realspdk.AIO(t, client, dir, bdev, 256*mib)
	m := &machine{t: t, client: client}
	for range 2 {
		if err := life(t.Context(), m.volumes(), bdev); err != nil {
			t.Fatal(err)
		}
		m.names(0, "a", "c", "s")
	}
	for _, name := range []string{"c", "a", "s"} {
		if err := m.volumes().Delete(t.Context(), m.uuid(name)); err != nil {
			t.Fatal(err)
		}
	}
	m.empty(0)
	stores, err := m.volumes().Stores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.volumes().DeleteStore(t.Context(), stores[0].UUID); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptedAnywhere kills this process, or restarts the target, before and
// after each call; the next one finishes, and in the end nothing is left.
func TestInterruptedAnywhere(t *testing.T) {
	for fault, what := range map[spdkfake.Fault]string{spdkfake.KillBefore: "killed before", spdkfake.KillAfter: "killed after",
		spdkfake.RestartBefore: "restarted before", spdkfake.RestartAfter: "restarted after"} {
		t.Run(what, func(t *testing.T) {
			n := 1
			for met := true; met; n++ {
				m := start(t)
				m.fake.At(n, fault)
				err := life(t.Context(), m.volumes(), "disk")
				if met = m.fake.Faultless(); !met && err != nil {
					t.Fatal(err)
				}
				m.fake.Clear()
				m.connect()
				if met && (fault == spdkfake.RestartBefore || fault == spdkfake.RestartAfter) {
					m.attach()
				}
				if err := life(t.Context(), m.volumes(), "disk"); err != nil {
					t.Fatalf("at call %d, again: %v", n, err)
				}
				m.names(n, "a", "c", "s")
				m.clear(n)
			}
			t.Logf("%d points", n-2)
		})
	}
}

// names checks which volumes there are.
func (m *machine) names(n int, want ...string) {
	m.t.Helper()
	all, err := m.volumes().List(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	var got []string
	for _, v := range all {
		got = append(got, v.Name)
	}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		m.t.Fatalf("at call %d (-want +got):\n%s", n, d)
	}
}

// clear deletes all, each in a call that is killed first, and expects the whole
// device to be free.
func (m *machine) clear(n int) {
	m.t.Helper()
	for _, name := range []string{"c", "a", "s"} {
		uuid := m.uuid(name)
		m.fake.On("bdev_lvol_delete", spdkfake.KillAfter)
		if err := m.volumes().Delete(m.t.Context(), uuid); err == nil {
			m.t.Errorf("at call %d: %s was deleted in spite of the kill", n, name)
		}
		m.fake.Clear()
		m.connect()
		if err := m.volumes().Delete(m.t.Context(), uuid); err != nil {
			m.t.Fatal(err)
		}
	}
	m.empty(n)
}

// uuid returns the volume's.
func (m *machine) uuid(name string) string {
	m.t.Helper()
	all, err := m.volumes().List(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	for _, v := range all {
		if v.Name == name {
			return v.UUID
		}
	}
	m.t.Fatalf("no volume %s", name)
	return ""
}

// empty checks that all of the one store is free.
func (m *machine) empty(n int) {
	m.t.Helper()
	stores, err := m.volumes().Stores(m.t.Context())
	if err != nil || len(stores) != 1 || stores[0].FreeClusters != stores[0].TotalClusters {
		m.t.Errorf("at call %d: leaked: %+v, %v", n, stores, err)
	}
}

// TestManyWritersOfOneStore: whatever is asked at once, SPDK sees one change at a
// time.
func TestManyWritersOfOneStore(t *testing.T) {
	m := start(t)
	store, v := m.store(), m.volumes()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			made, err := v.Ensure(t.Context(), lvol.Spec{StoreUUID: store.UUID, Name: fmt.Sprintf("v%d", i%4), SizeBytes: uint64(1+i) * 4 * mib})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := v.Grow(t.Context(), made.UUID, 20*mib); err != nil && !errors.Is(err, lvol.ErrNotFound) {
				t.Error(err)
			}
			if err := v.Delete(t.Context(), made.UUID); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	m.names(0)
}
