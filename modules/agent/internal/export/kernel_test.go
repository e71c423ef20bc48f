package export_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

const uid = types.UID("6f1c2a34-0000-4000-8000-000000000001")

func volume() export.Volume {
	return export.Volume{
		UID: uid, DevicePath: "/dev/nvme1n1p1",
		Portals: []v1alpha1.Portal{
			{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420},
			{Transport: v1alpha1.TransportRDMA, Address: "fd00::1", Port: 4421},
		},
		Hosts: []string{identity.HostNQN("consumer-0")},
	}
}

func newKernel() (*nvmeoftest.Kernel, nvmeof.Target, *export.Target) {
	k := nvmeoftest.NewKernel(nvmeoftest.WithDevices("/dev/nvme1n1p1", "/dev/nvme1n1p2"))
	target := kernel.New(k)
	return k, target, export.NewKernel(target)
}

func TestKernelExportsWithIdentitiesOfTheUID(t *testing.T) {
	_, target, backend := newKernel()
	result, err := backend.Ensure(t.Context(), volume())
	if err != nil {
		t.Fatal(err)
	}
	if !result.Created || result.Repaired() || len(result.Changes) == 0 {
		t.Errorf("result = %+v, want created with its changes", result)
	}
	got, err := target.Inspect(t.Context(), identity.VolumeNQN(identity.ExternalID(string(uid))))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Namespaces) != 1 {
		t.Fatalf("namespaces = %+v", got.Namespaces)
	}
	ns := got.Namespaces[0]
	for what, pair := range map[string][2]string{
		"serial": {identity.SubsystemSerial(string(uid)), got.Serial},
		"UUID":   {identity.NamespaceUUID(string(uid)), ns.UUID.String()},
		"NGUID":  {strings.ReplaceAll(identity.NamespaceNGUID(string(uid)), "-", ""), ns.NGUID.String()},
		"device": {"/dev/nvme1n1p1", ns.DevicePath},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s = %q, want %q", what, pair[1], pair[0])
		}
	}
	var listeners []string
	for _, p := range got.Ports {
		if l, ok := p.Listener(); ok {
			listeners = append(listeners, l.String())
		}
	}
	slices.Sort(listeners)
	if diff := cmp.Diff([]string{"rdma://[fd00::1]:4421", "tcp://10.0.0.1:4420"}, listeners); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
	if again, err := backend.Ensure(t.Context(), volume()); err != nil || again.Created || len(again.Changes) != 0 {
		t.Errorf("second call: %+v, %v; want no change", again, err)
	}
}

func TestObservationComparesInMemory(t *testing.T) {
	k, _, backend := newKernel()
	if _, err := backend.Ensure(t.Context(), volume()); err != nil {
		t.Fatal(err)
	}
	o, err := backend.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k.Trace()
	other := volume()
	other.Hosts = nil
	missing := volume()
	missing.UID = "another"
	for name, c := range map[string]struct {
		volume export.Volume
		want   int
	}{"as it is": {volume(), 0}, "one host too many": {other, 1}, "not exported": {missing, 1}} {
		if got, err := o.Differences(c.volume); err != nil || len(got) != c.want {
			t.Errorf("%s: differences %v (%v), want %d", name, got, err, c.want)
		}
	}
	if got := o.Strangers(nil); len(got) != 1 {
		t.Errorf("strangers = %v, want the one export", got)
	}
	if got := o.Strangers([]types.UID{uid}); len(got) != 0 {
		t.Errorf("strangers = %v, want none", got)
	}
	if got := o.Foreign(); len(got) != 0 {
		t.Errorf("foreign = %v, want none", got)
	}
	if got := o.Unseen(); got == "" {
		t.Error("nothing says that this kernel does not show its controllers")
	}
	shown, err := export.NewKernel(kernel.New(k, kernel.WithDebugFS(k.Debug()))).Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := shown.Unseen(); got != "" {
		t.Errorf("%q, and the kernel shows its controllers", got)
	}
}

// A former address stays only where the target listens on it now, and a stranger's
// listener is none.
func TestFormerAddressesStayWhereTheyAreAndAreNeverMade(t *testing.T) {
	k, target, backend := newKernel()
	v := volume()
	if _, err := backend.Ensure(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	v.Former = append(v.Portals[1:], v1alpha1.Portal{Transport: v1alpha1.TransportTCP, Address: "10.0.0.77", Port: 4420})
	v.Portals = v.Portals[:1]
	k.Trace()
	if result, err := backend.Ensure(t.Context(), v); err != nil || len(result.Changes) != 0 {
		t.Errorf("changes %v, %v; want none", result.Changes, err)
	}
	o, err := backend.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := o.Differences(v); err != nil || len(got) != 0 {
		t.Errorf("differences %v (%v)", got, err)
	}
	v.Former = nil
	if got, err := o.Differences(v); err != nil || len(got) != 1 {
		t.Errorf("without former addresses: differences %v (%v), want one", got, err)
	}
	if _, err := backend.Ensure(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	got, err := target.Inspect(t.Context(), identity.VolumeNQN(identity.ExternalID(string(uid))))
	if err != nil || len(got.Ports) != 1 || got.Ports[0].Address != "10.0.0.1" {
		t.Errorf("ports %+v, %v", got.Ports, err)
	}
}

func TestRevokeGivesEvidenceAlsoWithoutAnExport(t *testing.T) {
	_, _, backend := newKernel()
	host := volume().Hosts[0]
	absent, err := backend.Revoke(t.Context(), uid, host)
	if err != nil || absent.At.IsZero() || !strings.Contains(absent.Observed, "no subsystem") {
		t.Errorf("evidence = %+v, %v", absent, err)
	}
	if _, err := backend.Ensure(t.Context(), volume()); err != nil {
		t.Fatal(err)
	}
	e, err := backend.Revoke(t.Context(), uid, host)
	if err != nil || e.Source != "configfs" || e.At.IsZero() || !strings.Contains(e.Observed, "/dev/nvme1n1p1") || !strings.Contains(e.Observed, host) {
		t.Errorf("evidence = %+v, %v", e, err)
	}
}

func TestVolumesThatCanNeverBeExported(t *testing.T) {
	for name, spoil := range map[string]func(*export.Volume){
		"address that is none":     func(v *export.Volume) { v.Portals[0].Address = "storage-0" },
		"wildcard address":         func(v *export.Volume) { v.Portals[0].Address = "0.0.0.0" },
		"port 0":                   func(v *export.Volume) { v.Portals[0].Port = 0 },
		"port beyond 16 bits":      func(v *export.Volume) { v.Portals[0].Port = 70000 },
		"transport nobody has":     func(v *export.Volume) { v.Portals[0].Transport = "fc" },
		"relative device path":     func(v *export.Volume) { v.DevicePath = "nvme1n1p1" },
		"host that is no NQN":      func(v *export.Volume) { v.Hosts[0] = "consumer-0" },
		"device path with a break": func(v *export.Volume) { v.DevicePath = "/dev/a\nb" },
	} {
		t.Run(name, func(t *testing.T) {
			k, _, backend := newKernel()
			before := k.Dump()
			v := volume()
			spoil(&v)
			if _, err := backend.Ensure(t.Context(), v); !errors.Is(err, export.ErrInvalid) {
				t.Errorf("error = %v, want ErrInvalid", err)
			}
			if diff := cmp.Diff(before, k.Dump()); diff != "" {
				t.Errorf("the target was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestUnknownBackendIsNamed(t *testing.T) {
	_, _, backend := newKernel()
	all := export.NewBackends(backend)
	if got, err := all.Get(v1alpha1.BackendKernel); err != nil || got != export.Backend(backend) {
		t.Errorf("kernel: %v, %v", got, err)
	}
	_, err := all.Get("spdk")
	if !errors.Is(err, export.ErrUnsupported) || !strings.Contains(err.Error(), `"spdk"`) || !strings.Contains(err.Error(), "kernel") {
		t.Errorf("error = %v, want one that names the backend and those there are", err)
	}
}
