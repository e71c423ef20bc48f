package kernel_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

const errNoDevice = syscall.ENXIO

func TestEnsureCreatesInTheOrderTheKernelNeeds(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	id := nvmeof.DeriveUUID(volume).String()
	want := []string{
		"mkdir " + sub,
		"mkdir " + sub + "/namespaces/1",
		"write " + sub + "/namespaces/1/device_path " + disk,
		"write " + sub + "/namespaces/1/device_uuid " + id,
		"write " + sub + "/namespaces/1/device_nguid " + id,
		"write " + sub + "/namespaces/1/enable 1",
		"write " + sub + "/attr_serial DISTORT1",
		"write " + sub + "/attr_model DISTORT",
		"mkdir hosts/" + hostOld,
		"symlink " + sub + "/allowed_hosts/" + hostOld + " hosts/" + hostOld,
		"mkdir ports/1",
		"write ports/1/addr_trtype tcp",
		"write ports/1/addr_adrfam ipv4",
		"write ports/1/addr_traddr 10.0.0.1",
		"write ports/1/addr_trsvcid 4420",
		"symlink ports/1/subsystems/" + volume + " " + sub,
	}
	if d := cmp.Diff(want, k.Trace()); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
	ensure(t, k, export(hostOld))
	if extra := k.Trace(); len(extra) > 0 {
		t.Errorf("all was right, but %v", extra)
	}
}

// Fault AG5: the kernel answers EINVAL to a port whose transport module is missing.
func TestEnsureNamesWhatTheKernelRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		kernel *nvmeoftest.Kernel
		change func(*nvmeof.Subsystem)
		want   error
		says   []string
	}{
		"transport module is missing": {
			kernel: nvmeoftest.NewKernel(nvmeoftest.WithDevices(disk), nvmeoftest.WithTransports(nvmeof.RDMA)),
			want:   nvmeof.ErrTransportUnavailable, says: []string{"nvmet-tcp", "tcp://10.0.0.1:4420"},
		},
		"no RDMA device": {
			kernel: nvmeoftest.NewKernel(nvmeoftest.WithDevices(disk), nvmeoftest.WithoutRDMADevice()),
			change: func(s *nvmeof.Subsystem) { s.Listeners = []nvmeof.Listener{portB} },
			want:   nvmeof.ErrTransportUnavailable, says: []string{"rdma device", "rdma://[fd00::1]:4421"},
		},
		"address of another machine": {
			kernel: nvmeoftest.NewKernel(nvmeoftest.WithDevices(disk), nvmeoftest.WithAddresses(netip.MustParseAddr("10.0.0.2"))),
			want:   nvmeof.ErrAddressNotLocal, says: []string{"tcp://10.0.0.1:4420"},
		},
		"address in use": {
			kernel: func() *nvmeoftest.Kernel {
				k := newKernel()
				k.Occupy(mustListener("tcp://10.0.0.1:4420"))
				return k
			}(),
			want: nvmeof.ErrAddressInUse, says: []string{"tcp://10.0.0.1:4420"},
		},
		"device is missing": {
			kernel: nvmeoftest.NewKernel(), want: nvmeof.ErrDeviceNotFound, says: []string{disk, "namespace 1"},
		},
		"device is a directory": {
			kernel: func() *nvmeoftest.Kernel {
				k := nvmeoftest.NewKernel()
				k.AddDirectory(disk)
				return k
			}(),
			want: nvmeof.ErrInvalid, says: []string{disk, "not a block device"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := export(hostOld)
			if tc.change != nil {
				tc.change(&want)
			}
			_, err := newTarget(tc.kernel).Ensure(t.Context(), want)
			if !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			for _, text := range append(tc.says, volume) {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("error does not say %q: %v", text, err)
				}
			}
			for _, line := range tc.kernel.Dump() {
				if strings.HasPrefix(line, "ports/1") {
					t.Errorf("a port that serves nobody stays: %s", line)
				}
			}
		})
	}
}

func TestSerialOfADiscoveredSubsystemIsLocked(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	connect(t, k, hostOld)
	want := export(hostOld)
	want.Serial = "OTHER"
	_, err := newTarget(k).Ensure(t.Context(), want)
	if !errors.Is(err, nvmeof.ErrIdentityLocked) || !strings.Contains(err.Error(), `"OTHER"`) {
		t.Fatalf("error %v, want ErrIdentityLocked", err)
	}
	// The serial must not keep the old host from being fenced.
	want.AllowedHosts = []string{hostNew}
	ensure(t, k, want)
}

func TestTargetWithoutNvmetIsUnavailable(t *testing.T) {
	target := kernel.New(kernel.OS(t.TempDir()))
	_, ensureErr := target.Ensure(t.Context(), export())
	_, listErr := target.List(t.Context())
	_, inspectErr := target.Inspect(t.Context(), volume)
	_, removeErr := target.Remove(t.Context(), volume)
	_, revokeErr := target.Revoke(t.Context(), volume, hostOld)
	for _, err := range []error{ensureErr, listErr, inspectErr, removeErr, revokeErr} {
		if !errors.Is(err, nvmeof.ErrTargetUnavailable) {
			t.Errorf("error %v, want ErrTargetUnavailable", err)
		}
	}
}

func TestInputIsRefusedBeforeAnythingHappens(t *testing.T) {
	k := newKernel()
	target := newTarget(k)
	_, ensureErr := target.Ensure(t.Context(), nvmeof.Subsystem{NQN: "../hosts"})
	_, inspectErr := target.Inspect(t.Context(), "../hosts")
	_, removeErr := target.Remove(t.Context(), "nqn.2026-02.io.distort:a/../b")
	_, revokeErr := target.Revoke(t.Context(), volume, "*")
	for _, err := range []error{ensureErr, inspectErr, removeErr, revokeErr} {
		if !errors.Is(err, nvmeof.ErrInvalid) {
			t.Errorf("error %v, want ErrInvalid", err)
		}
	}
	if k.Effects() != 0 {
		t.Errorf("%d effects", k.Effects())
	}
}

func TestCancelledCallDoesNothing(t *testing.T) {
	k := newKernel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTarget(k).Ensure(ctx, export()); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want Canceled", err)
	}
	if k.Effects() != 0 {
		t.Errorf("%d effects", k.Effects())
	}
}

func TestPortsOfOthersAreLeftAlone(t *testing.T) {
	k := newKernel()
	foreign := func(id, trtype, addr string) {
		t.Helper()
		dir := "ports/" + id
		for _, err := range []error{
			k.Mkdir(dir), k.WriteFile(dir+"/addr_trtype", []byte(trtype)), k.WriteFile(dir+"/addr_adrfam", []byte("ipv4")),
			k.WriteFile(dir+"/addr_traddr", []byte(addr)), k.WriteFile(dir+"/addr_trsvcid", []byte("4420")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	foreign("100", "loop", "10.0.0.9") // not ours by its transport
	foreign("5", "tcp", "10.0.0.9")    // not ours by its ID
	before := k.Dump()
	target := kernel.New(k, kernel.WithPortIDs(100, 101))
	if _, err := target.Ensure(t.Context(), export()); err != nil {
		t.Fatal(err)
	}
	state, err := target.Inspect(t.Context(), volume)
	if err != nil || len(state.Ports) != 1 || state.Ports[0].ID != 101 {
		t.Errorf("ports %+v, %v: want the lowest free ID of the range", state.Ports, err)
	}
	full := export()
	full.Listeners = append(full.Listeners, portB)
	if _, err := target.Ensure(t.Context(), full); !errors.Is(err, nvmeof.ErrBusy) {
		t.Errorf("range is full: %v, want ErrBusy", err)
	}
	if _, err := target.Remove(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, k.Dump()); d != "" {
		t.Errorf("ports of others changed:\n%s", d)
	}
}

func TestHostWithAKeyIsKept(t *testing.T) {
	k := newKernel()
	ensure(t, k, export(hostOld))
	if err := k.WriteFile("hosts/"+hostOld+"/dhchap_key", []byte("DHHC-1:00:c2VjcmV0:")); err != nil {
		t.Fatal(err)
	}
	if _, err := newTarget(k).Revoke(t.Context(), volume, hostOld); err != nil {
		t.Fatal(err)
	}
	if _, err := k.ReadDir("hosts/" + hostOld); err != nil {
		t.Errorf("the host and its key are gone: %v", err)
	}
}

// Fault AG2: what one caller makes, no other takes away or loses.
func TestManyCallersShareOneTarget(t *testing.T) {
	k := nvmeoftest.NewKernel()
	target := newTarget(k)
	const callers = 16
	var wg sync.WaitGroup
	for i := range callers {
		name := volume + "-" + string(rune('a'+i))
		path := "/dev/disk" + string(rune('a'+i))
		k.AddDevice(path)
		wg.Go(func() {
			id := nvmeof.DeriveUUID(name)
			want := export(hostOld)
			want.NQN, want.Namespaces[0] = name, nvmeof.Namespace{NSID: 1, DevicePath: path, UUID: id, NGUID: id.NGUID()}
			if _, err := target.Ensure(t.Context(), want); err != nil {
				t.Error(err)
			}
			if _, err := target.List(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := target.Revoke(t.Context(), name, hostOld); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if _, err := target.Remove(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	states, err := target.List(t.Context())
	if err != nil || len(states) != callers/2 {
		t.Errorf("%d subsystems, %v", len(states), err)
	}
	for _, s := range states {
		if len(s.Ports) != 1 || s.Ports[0].ID != 1 {
			t.Errorf("%s has ports %v, want the one that all share", s.NQN, s.Ports)
		}
	}
}
