package spdk_test

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// named is a subsystem of its own on its own bdev.
func named(name, bdev string) nvmeof.Subsystem {
	s := export(hostOld)
	s.NQN += "-" + name
	id := nvmeof.DeriveUUID(s.NQN)
	s.Namespaces = []nvmeof.Namespace{{NSID: 1, DevicePath: spdk.DevicePath(bdev), UUID: id, NGUID: id.NGUID()}}
	return s
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*nvmeof.Subsystem)
		want   error
		says   string
	}{
		"serial is another":     {func(w *nvmeof.Subsystem) { w.Serial = "OTHER" }, nvmeof.ErrIdentityLocked, "serial"},
		"model is another":      {func(w *nvmeof.Subsystem) { w.Model = "OTHER" }, nvmeof.ErrIdentityLocked, "model"},
		"no room for the nsid":  {func(w *nvmeof.Subsystem) { w.Namespaces[0].NSID = 33 }, nvmeof.ErrIdentityLocked, "namespace 33"},
		"nsid is too high":      {func(w *nvmeof.Subsystem) { w.NQN, w.Namespaces[0].NSID = w.NQN+"-2", 1025 }, nvmeof.ErrUnsupported, "1024"},
		"path of a kernel":      {func(w *nvmeof.Subsystem) { w.Namespaces[0].DevicePath = "/dev/nvme0n1" }, nvmeof.ErrDeviceNotFound, "/bdev/NAME"},
		"no such bdev":          {func(w *nvmeof.Subsystem) { w.Namespaces[0].DevicePath = spdk.DevicePath("C") }, nvmeof.ErrDeviceNotFound, `"C"`},
		"bdev is claimed":       {func(w *nvmeof.Subsystem) { w.Namespaces[0].DevicePath = spdk.DevicePath("S") }, nvmeof.ErrDeviceInUse, "claimed"},
		"alias of a bdev":       {func(w *nvmeof.Subsystem) { w.Namespaces[0].DevicePath = spdk.DevicePath("lvs/v") }, nvmeof.ErrInvalid, "must name the bdev itself"},
		"transport not built":   {func(w *nvmeof.Subsystem) { w.Listeners[0].Transport = nvmeof.RDMA }, nvmeof.ErrTransportUnavailable, "RDMA"},
		"address is not local":  {func(w *nvmeof.Subsystem) { w.Listeners[0] = mustListener("tcp://192.0.2.77:4420") }, nvmeof.ErrAddressNotLocal, "192.0.2.77"},
		"two errors in a value": {func(w *nvmeof.Subsystem) { w.Serial, w.NQN = "", "x" }, nvmeof.ErrInvalid, "serial"},
	} {
		t.Run(name, func(t *testing.T) {
			fake := start(t, spdkfake.WithTransports("TCP"))
			c := client(t, fake)
			bdevs(t, c, "S")
			call(t, c, "bdev_lvol_create_lvstore", `{"bdev_name":"S","lvs_name":"lvs","cluster_sz":1048576}`)
			call(t, c, "bdev_lvol_create", `{"lvs_name":"lvs","lvol_name":"v","size_in_mib":1}`)
			ensure(t, target(t, fake), export(hostOld))
			want := export(hostOld)
			tc.change(&want)
			_, err := target(t, fake).Ensure(t.Context(), want)
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %v with %q in it", err, tc.want, tc.says)
			}
			ensure(t, target(t, fake), export(hostOld)) // nothing is stuck
		})
	}
}

func TestAddressOfAnotherProgram(t *testing.T) {
	fake := start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	fake.Occupy("TCP", "127.0.0.1", fmt.Sprint(port))
	want := export(hostOld)
	want.Listeners = []nvmeof.Listener{mustListener(fmt.Sprintf("tcp://127.0.0.1:%d", port))}
	if _, err := target(t, fake).Ensure(t.Context(), want); !errors.Is(err, nvmeof.ErrAddressInUse) {
		t.Errorf("error %v", err)
	}
}

func TestNobodyAnswers(t *testing.T) {
	target := spdk.New(rpc.New(filepath.Join(t.TempDir(), "none")))
	if _, err := target.List(t.Context()); !errors.Is(err, nvmeof.ErrTargetUnavailable) {
		t.Errorf("List: %v", err)
	}
	if _, err := target.Ensure(t.Context(), export()); !errors.Is(err, nvmeof.ErrTargetUnavailable) {
		t.Errorf("Ensure: %v", err)
	}
	if _, err := target.Revoke(t.Context(), volume, hostOld); !errors.Is(err, nvmeof.ErrTargetUnavailable) {
		t.Errorf("an unreachable target releases nobody: %v", err)
	}
}

func TestNothingIsChangedWhenAllIsRight(t *testing.T) {
	fake := start(t)
	ensure(t, target(t, fake), export(hostOld))
	fake.Trace()
	if report := ensure(t, target(t, fake), export(hostOld)); report.Changed() {
		t.Errorf("changes %v", report.Changes)
	}
	if trace := fake.Trace(); len(trace) > 0 {
		t.Errorf("calls %v", trace)
	}
}

// TestOneOwner: two subsystems want one bdev, or one identity, at the same time.
func TestOneOwner(t *testing.T) {
	for what, second := range map[string]nvmeof.Subsystem{"bdev": named("2", "A"), "identity": func() nvmeof.Subsystem {
		s := named("2", "B")
		s.Namespaces[0].UUID, s.Namespaces[0].NGUID = export().Namespaces[0].UUID, export().Namespaces[0].NGUID
		return s
	}()} {
		t.Run(what, func(t *testing.T) {
			fake := start(t)
			target := target(t, fake)
			errs := make([]error, 2)
			var group sync.WaitGroup
			for i, want := range []nvmeof.Subsystem{export(hostOld), second} {
				group.Go(func() { _, errs[i] = target.Ensure(t.Context(), want) })
			}
			group.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("one must win: %v", errs)
			}
			if err := errors.Join(errs...); !errors.Is(err, nvmeof.ErrDeviceInUse) {
				t.Error(err)
			}
		})
	}
}

func TestEnsureAllListensLast(t *testing.T) {
	fake := start(t)
	c := client(t, fake)
	var want []nvmeof.Subsystem
	for i := range 20 {
		bdev := fmt.Sprintf("all%d", i)
		bdevs(t, c, bdev)
		want = append(want, named(bdev, bdev))
	}
	want[7].Namespaces[0].DevicePath = spdk.DevicePath("absent")
	want[9].Serial = ""
	for range 2 {
		fake.Trace()
		errs := target(t, fake).EnsureAll(t.Context(), time.Minute, want)
		for i, err := range errs {
			wants := map[int]error{7: nvmeof.ErrDeviceNotFound, 9: nvmeof.ErrInvalid}[i]
			if !errors.Is(err, wants) {
				t.Errorf("%d: %v", i, err)
			}
		}
		trace := fake.Trace()
		listens := func(line string) bool { return strings.HasPrefix(line, "nvmf_subsystem_add_listener") }
		first := slices.IndexFunc(trace, listens)
		if first < 0 {
			t.Fatal("nobody listens")
		}
		for _, line := range trace[first:] {
			if !listens(line) {
				t.Errorf("%s after the first listener", line)
			}
		}
		fake.Restart()
		bdevs(t, c, "A", "B")
		for i := range 20 {
			bdevs(t, c, fmt.Sprintf("all%d", i))
		}
	}
}

func TestGrowthIsShown(t *testing.T) {
	fake := start(t)
	c := client(t, fake)
	fake.AddFile("/file", 8<<20)
	call(t, c, "bdev_aio_create", `{"name":"F","filename":"/file","block_size":4096}`)
	want := named("file", "F")
	ensure(t, target(t, fake), want)
	fake.AddFile("/file", 16<<20)
	for range 2 {
		if err := target(t, fake).Revalidate(t.Context(), want.NQN, 1); err != nil {
			t.Fatal(err)
		}
	}
	var got []struct {
		Blocks int `json:"num_blocks"`
	}
	if err := c.Call(t.Context(), "bdev_get_bdevs", raw(`{"name":"F"}`), &got); err != nil || got[0].Blocks != 4096 {
		t.Errorf("%v, %v", got, err)
	}
}
