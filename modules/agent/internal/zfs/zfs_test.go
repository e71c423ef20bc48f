package zfs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/agent/internal/zfs/zfstest"
)

const (
	mib  = int64(1) << 20
	guid = "16223331268497365322"
)

var spec = zfs.Spec{ID: "vol-1", UID: "uid-1", SizeBytes: 64 * mib}

func manager(t *testing.T, h *zfstest.Host, run command.Runner) *zfs.Manager {
	t.Helper()
	m, err := zfs.New(zfs.Config{Runner: run, Devices: h, Blocks: h, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// world is a host with one pool.
func world(t *testing.T) (*zfstest.Host, *zfs.Manager, zfs.Pool) {
	t.Helper()
	h := zfstest.NewHost()
	h.Import("tank", guid, 1<<30)
	m := manager(t, h, h.Runner())
	pools, err := m.Pools(t.Context())
	if err != nil || len(pools) != 1 {
		t.Fatalf("pools = %+v, %v", pools, err)
	}
	return h, m, pools[0]
}

func run(t *testing.T, h *zfstest.Host, args ...string) {
	t.Helper()
	if _, err := h.Runner().Run(t.Context(), command.New("zfs", args...)); err != nil {
		t.Fatal(err)
	}
}

func TestPoolsAreKnownByTheirGUID(t *testing.T) {
	h, m, p := world(t)
	if diff := cmp.Diff(zfs.Pool{GUID: guid, Name: "tank", Health: "ONLINE"}, p); diff != "" {
		t.Error(diff)
	}
	h.Take("tank")
	h.Import("tank", "7", 1<<30)
	pools, err := m.Pools(t.Context())
	if err != nil || len(pools) != 1 || pools[0].GUID != "7" {
		t.Errorf("another pool of the same name: %+v, %v", pools, err)
	}
}

func TestAuthorize(t *testing.T) {
	pool := func(guid string) zfs.Pool { return zfs.Pool{GUID: guid, Name: "p" + guid} }
	for name, c := range map[string]struct {
		declared []string
		imported []zfs.Pool
		says     string
	}{
		"exactly":           {[]string{"1", "2"}, []zfs.Pool{pool("2"), pool("1")}, ""},
		"none and none":     {nil, nil, ""},
		"one is missing":    {[]string{"1", "2"}, []zfs.Pool{pool("1")}, "pool 2 is declared and not imported"},
		"one more":          {[]string{"1"}, []zfs.Pool{pool("1"), pool("2")}, "pool 2 (p2) is imported and not declared"},
		"replaced":          {[]string{"1"}, []zfs.Pool{pool("2")}, "pool 1 is declared and not imported, pool 2 (p2) is imported and not declared"},
		"nobody's pool":     {nil, []zfs.Pool{pool("1")}, "pool 1 (p1) is imported and not declared"},
		"nothing is there":  {[]string{"1"}, nil, "pool 1 is declared and not imported"},
		"a name is no GUID": {[]string{"p1"}, []zfs.Pool{pool("1")}, "pool p1 is declared and not imported"},
	} {
		err := zfs.Authorize(c.declared, c.imported)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!errors.Is(err, zfs.ErrMismatch) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestValidGUID(t *testing.T) {
	for s, want := range map[string]bool{
		guid: true, "1": true, "18446744073709551615": true,
		"": false, "0": false, "01": false, "18446744073709551616": false, "-1": false, "+1": false, "0x1": false, " 1": false,
	} {
		if zfs.ValidGUID(s) != want {
			t.Errorf("ValidGUID(%q) = %v", s, !want)
		}
	}
}

func TestCreateMakesExactlyOneZvolWithItsOwner(t *testing.T) {
	h, m, p := world(t)
	v, err := m.Create(t.Context(), p, spec)
	if err != nil {
		t.Fatal(err)
	}
	if v.Dataset != "tank/distort/block/vol-1" || v.UID != "uid-1" || v.SizeBytes != 64*mib || v.GUID == "" {
		t.Errorf("zvol = %+v", v)
	}
	again, err := m.Create(t.Context(), p, spec)
	if err != nil || again != v {
		t.Errorf("made again: %+v, %v; want the same zvol", again, err)
	}
	larger := spec
	larger.SizeBytes = 128 * mib
	if again, err = m.Create(t.Context(), p, larger); err != nil || again != v {
		t.Errorf("asked for more: %+v, %v; want the zvol as it is", again, err)
	}
	if n := len(h.Zvols()); n != 1 {
		t.Errorf("%d zvols", n)
	}
	for _, c := range h.Runner().Calls() {
		if c.Name == "zfs" && c.Args[0] == "create" && !slices.Contains(c.Args, "--") {
			t.Errorf("operands without --: %s", c)
		}
	}
}

// What is not the volume's is neither taken over, nor grown, nor destroyed.
func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	for name, make := range map[string][]string{
		"without an owner":        {"create", "-V", "64M", "tank/distort/block/vol-1"},
		"of another owner":        {"create", "-V", "64M", "-o", "distort:volume-uid=uid-2", "tank/distort/block/vol-1"},
		"a filesystem":            {"create", "-o", "distort:volume-uid=uid-1", "tank/distort/block/vol-1"},
		"owner set on the parent": {"create", "-V", "64M", "tank/distort/block/vol-1"},
	} {
		t.Run(name, func(t *testing.T) {
			h, m, p := world(t)
			run(t, h, "create", "tank/distort")
			run(t, h, "create", "tank/distort/block")
			if name == "owner set on the parent" {
				run(t, h, "set", "distort:volume-uid=uid-1", "tank/distort/block")
			}
			run(t, h, make...)
			before := len(h.Runner().Calls())
			if _, err := m.Create(t.Context(), p, spec); !errors.Is(err, zfs.ErrForeign) {
				t.Errorf("Create: %v", err)
			}
			if _, err := m.Grow(t.Context(), p, spec); !errors.Is(err, zfs.ErrForeign) {
				t.Errorf("Grow: %v", err)
			}
			if err := m.Destroy(t.Context(), p, spec, "4711"); err != nil {
				t.Errorf("Destroy of what is gone, while another one has its name: %v", err)
			}
			for _, c := range h.Runner().Calls()[before:] {
				if c.Args[0] != "get" {
					t.Errorf("changed something: %s", c)
				}
			}
		})
	}
}

func TestDestroyGoesByIdentity(t *testing.T) {
	h, m, p := world(t)
	v, err := m.Create(t.Context(), p, spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context(), p, spec, "4711"); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("another GUID is recorded: %v", err)
	}
	run(t, h, "inherit", zfs.UIDProperty, v.Dataset)
	if err := m.Destroy(t.Context(), p, spec, v.GUID); !errors.Is(err, zfs.ErrForeign) {
		t.Errorf("the owner was taken off: %v", err)
	}
	run(t, h, "set", zfs.UIDProperty+"=uid-1", v.Dataset)
	run(t, h, "snapshot", v.Dataset+"@kept")
	if err := m.Destroy(t.Context(), p, spec, v.GUID); !errors.Is(err, zfs.ErrDependants) {
		t.Errorf("with a snapshot: %v", err)
	}
	run(t, h, "destroy", v.Dataset+"@kept")
	h.SetOpen(map[string]bool{h.Zvols()[0].Path: true})
	if err := m.Destroy(t.Context(), p, spec, v.GUID); !errors.Is(err, zfs.ErrBusy) {
		t.Errorf("open: %v", err)
	}
	h.SetOpen(nil)
	for range 2 {
		if err := m.Destroy(t.Context(), p, spec, v.GUID); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	}
	if left := h.Zvols(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	h.Take("tank")
	if err := m.Destroy(t.Context(), p, spec, v.GUID); !errors.Is(err, zfs.ErrNoPool) {
		t.Errorf("the pool went meanwhile: %v", err)
	}
}

func TestGrowReadsBackAndNeverShrinks(t *testing.T) {
	h, m, p := world(t)
	if _, err := m.Create(t.Context(), p, spec); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ask, want int64 }{{128 * mib, 128 * mib}, {64 * mib, 128 * mib}, {128 * mib, 128 * mib}} {
		s := spec
		s.SizeBytes = c.ask
		v, err := m.Grow(t.Context(), p, s)
		if err != nil || v.SizeBytes != c.want || h.Zvols()[0].SizeBytes != c.want {
			t.Errorf("Grow to %d: %+v, %v; want %d", c.ask, v, err, c.want)
		}
	}
	s := spec
	s.SizeBytes = 4 << 30
	if _, err := m.Grow(t.Context(), p, s); !errors.Is(err, zfs.ErrNoSpace) {
		t.Errorf("more than there is: %v", err)
	}
}

func TestCreateTellsWhyNot(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*zfstest.Host)
		spec    zfs.Spec
		want    error
	}{
		"no room":   {func(*zfstest.Host) {}, zfs.Spec{ID: "vol-1", UID: "u", SizeBytes: 2 << 30}, zfs.ErrNoSpace},
		"suspended": {func(h *zfstest.Host) { h.SetHealth("tank", "SUSPENDED") }, spec, zfs.ErrSuspended},
		"read-only": {func(h *zfstest.Host) { h.SetReadOnly("tank", true) }, spec, zfs.ErrReadOnly},
		"gone":      {func(h *zfstest.Host) { h.Take("tank") }, spec, zfs.ErrNoPool},
		"replaced":  {func(h *zfstest.Host) { h.Take("tank"); h.Import("tank", "7", 1<<30) }, spec, zfs.ErrNoPool},
		"nonsense":  {func(*zfstest.Host) {}, zfs.Spec{ID: "vol-1", UID: "u", SizeBytes: mib, Compression: "best"}, zfs.ErrRefused},
	} {
		h, m, p := world(t)
		c.arrange(h)
		_, err := m.Create(t.Context(), p, c.spec)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestDeviceIsAwaited(t *testing.T) {
	h, m, p := world(t)
	h.SetLate(17)
	v, err := m.Create(t.Context(), p, spec)
	if err != nil {
		t.Fatal(err)
	}
	d, err := m.Device(t.Context(), v)
	if err != nil || d.Path != h.Zvols()[0].Path || d.SizeBytes != 64*mib {
		t.Errorf("device = %+v, %v", d, err)
	}
	v.Dataset = "tank/distort/block/vol-2"
	if _, err := m.Device(t.Context(), v); !errors.Is(err, zfs.ErrNoDevice) {
		t.Errorf("device of nothing: %v", err)
	}
}

func TestSampleListsWhatIsOursAndWhatIsNot(t *testing.T) {
	h, m, p := world(t)
	empty, err := m.Sample(t.Context(), p)
	if err != nil || len(empty.Volumes) != 0 || len(empty.Others) != 0 || empty.FreeBytes <= 0 {
		t.Errorf("of a new pool: %+v, %v", empty, err)
	}
	v, err := m.Create(t.Context(), p, spec)
	if err != nil {
		t.Fatal(err)
	}
	run(t, h, "create", "-V", "16M", "tank/distort/block/stray")
	run(t, h, "create", "-V", "16M", "tank/elsewhere")
	s, err := m.Sample(t.Context(), p)
	if err != nil || !slices.Equal(s.Volumes, []zfs.Volume{v}) || !slices.Equal(s.Others, []string{"tank/distort/block/stray"}) {
		t.Errorf("sample = %+v, %v", s, err)
	}
	if taken := empty.FreeBytes - s.FreeBytes; taken < 64*mib {
		t.Errorf("%d bytes were taken", taken)
	}
}

// ZFS goes on calling a pool ONLINE whose disk was pulled out.
func TestCheckReadsTheDisks(t *testing.T) {
	h, m, p := world(t)
	if err := m.Check(t.Context(), p); err != nil {
		t.Error(err)
	}
	h.Pull("tank", true)
	if err := m.Check(t.Context(), p); !errors.Is(err, zfs.ErrUnhealthy) || !strings.Contains(err.Error(), "/dev/tank-disk") {
		t.Errorf("after the disk was pulled out: %v", err)
	}
	h.Pull("tank", false)
	for health, want := range map[string]error{"DEGRADED": nil, "SUSPENDED": zfs.ErrSuspended, "FAULTED": zfs.ErrUnhealthy, "UNAVAIL": zfs.ErrUnhealthy} {
		p.Health = health
		if err := m.Check(t.Context(), p); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", health, err, want)
		}
	}
}

// hanging is a runner in which programs about one pool never return.
type hanging struct {
	command.Runner
	pool    string
	started chan struct{}
	release chan struct{}
}

func (r *hanging) Run(ctx context.Context, c command.Cmd) (command.Result, error) {
	if strings.Contains(c.String(), r.pool+"/") {
		r.started <- struct{}{}
		<-r.release // in the kernel, whatever becomes of ctx
	}
	return r.Runner.Run(ctx, c)
}

func TestPoolThatHangsBlocksNothingElse(t *testing.T) {
	h := zfstest.NewHost()
	h.Import("bad", "1", 1<<30)
	h.Import("good", "2", 1<<30)
	r := &hanging{Runner: h.Runner(), pool: "bad", started: make(chan struct{}, 1), release: make(chan struct{})}
	m := manager(t, h, r)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := m.Create(ctx, zfs.Pool{GUID: "1", Name: "bad"}, spec)
		result <- err
	}()
	<-r.started
	if _, err := m.Create(t.Context(), zfs.Pool{GUID: "2", Name: "good"}, spec); err != nil {
		t.Errorf("another pool: %v", err)
	}
	if _, err := m.Pools(t.Context()); err != nil {
		t.Errorf("the list of pools: %v", err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the call that hangs: %v", err)
	}
	short, stop := context.WithCancel(t.Context())
	stop()
	if _, err := m.Find(short, zfs.Pool{GUID: "1", Name: "bad"}, "vol-1", "uid-1"); !errors.Is(err, context.Canceled) {
		t.Errorf("the same pool: %v", err)
	}
	close(r.release)
}
