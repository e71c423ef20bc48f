package export_test

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// newSPDK is a target with bdevs A and B, and the backend over it.
func newSPDK(t *testing.T) (*spdkfake.Server, *export.Target) {
	t.Helper()
	fake, err := spdkfake.Start(filepath.Join(t.TempDir(), "spdk.sock"))
	if err != nil {
		t.Fatal(err)
	}
	client := rpc.New(fake.Socket())
	t.Cleanup(func() {
		client.Close()
		fake.Close()
		if c := fake.Collisions(); len(c) > 0 {
			t.Errorf("changes of one object in flight together: %v", c)
		}
	})
	malloc(t, client)
	return fake, export.NewSPDK(spdk.New(client))
}

func malloc(t *testing.T, client *rpc.Client) {
	t.Helper()
	for _, name := range []string{"A", "B"} {
		if err := client.Call(t.Context(), "bdev_malloc_create", map[string]any{"name": name, "num_blocks": 2048, "block_size": 4096}, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func bdevVolume(id types.UID, bdev string, hosts ...string) export.Volume {
	return export.Volume{UID: id, DevicePath: spdk.DevicePath(bdev), Hosts: hosts,
		Portals: []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}}}
}

var (
	consumer = identity.HostNQN("consumer-0")
	listener = nvmeof.Listener{Transport: nvmeof.TCP, Address: mustAddr("10.0.0.1"), Port: 4420}
)

func subsystemOf(id types.UID) string { return identity.VolumeNQN(identity.ExternalID(string(id))) }

func TestSPDKExportIsExactAndRepaired(t *testing.T) {
	fake, backend := newSPDK(t)
	v := bdevVolume(uid, "A", consumer)
	if fresh, err := backend.Fresh(t.Context()); err != nil || !fresh {
		t.Errorf("a target that was just started: fresh %t, %v", fresh, err)
	}
	if r, err := backend.Ensure(t.Context(), v); err != nil || !r.Created {
		t.Fatalf("%+v, %v", r, err)
	}
	if fresh, err := backend.Fresh(t.Context()); err != nil || fresh {
		t.Errorf("a target that serves: fresh %t, %v", fresh, err)
	}
	if r, err := backend.Ensure(t.Context(), v); err != nil || r.Created || len(r.Changes) != 0 {
		t.Errorf("again: %+v, %v; want no change", r, err)
	}
	client := rpc.New(fake.Socket())
	defer client.Close()
	if err := client.Call(t.Context(), "nvmf_subsystem_add_host", map[string]any{"nqn": subsystemOf(uid), "host": "nqn.2014-08.org.example:stranger"}, nil); err != nil {
		t.Fatal(err)
	}
	o, err := backend.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := o.Differences(v); err != nil || len(got) != 1 {
		t.Errorf("differences %v, %v; want the stranger", got, err)
	}
	if got := o.Unseen(); got != "" {
		t.Errorf("unseen: %q; SPDK shows its controllers", got)
	}
	if got := o.Strangers(nil); len(got) != 1 || !o.Serving(uid) {
		t.Errorf("strangers %v, serving %t", got, o.Serving(uid))
	}
	if r, err := backend.Ensure(t.Context(), v); err != nil || !r.Repaired() {
		t.Errorf("%+v, %v; want a repair", r, err)
	}
}

func TestSPDKExportStaysWhileHostsAreConnected(t *testing.T) {
	fake, backend := newSPDK(t)
	if _, err := backend.Ensure(t.Context(), bdevVolume(uid, "A", consumer)); err != nil {
		t.Fatal(err)
	}
	host, err := fake.Connect(consumer, subsystemOf(uid), listener)
	if err != nil {
		t.Fatal(err)
	}
	if err := backend.Remove(t.Context(), uid); !errors.Is(err, export.ErrConnected) || !strings.Contains(err.Error(), consumer) {
		t.Errorf("error %v, want ErrConnected with the host", err)
	}
	host.Disconnect()
	for range 2 {
		if err := backend.Remove(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
}

// A write that was in flight lands before there is evidence, and a time-out is none.
func TestSPDKRevocationIsProvedByControllersThatAreGone(t *testing.T) {
	fake, backend := newSPDK(t)
	if _, err := backend.Ensure(t.Context(), bdevVolume(uid, "A", consumer)); err != nil {
		t.Fatal(err)
	}
	host, err := fake.Connect(consumer, subsystemOf(uid), listener)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Submit(identity.NSID, "in flight"); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if e, err := backend.Revoke(short, uid, consumer); err == nil {
		t.Fatalf("evidence %+v while a write is in flight", e)
	}
	fake.Complete()
	e, err := backend.Revoke(t.Context(), uid, consumer)
	if err != nil || e.Source != "nvmf_subsystem_get_controllers" || e.At.IsZero() || !strings.Contains(e.Observed, consumer) {
		t.Errorf("evidence %+v, %v", e, err)
	}
	if got := fake.Writes("A"); len(got) != 1 {
		t.Errorf("writes %v, want the one that was acknowledged or in flight before the evidence", got)
	}
	if err := host.Write(identity.NSID, "late"); err == nil {
		t.Error("the host writes after it was fenced")
	}
}

// After a restart of SPDK nobody reaches an export before all are there.
func TestSPDKExportsOfManyVolumesAreMadeTogether(t *testing.T) {
	fake, backend := newSPDK(t)
	all := []export.Volume{bdevVolume(uid, "A", consumer), bdevVolume("6f1c2a34-0000-4000-8000-000000000002", "B", consumer)}
	for _, err := range backend.EnsureAll(t.Context(), time.Minute, all) {
		if err != nil {
			t.Fatal(err)
		}
	}
	fake.Restart()
	client := rpc.New(fake.Socket())
	defer client.Close()
	malloc(t, client)
	fake.Trace()
	for _, err := range backend.EnsureAll(t.Context(), time.Minute, all) {
		if err != nil {
			t.Fatal(err)
		}
	}
	listening := false
	for _, call := range fake.Trace() {
		listening = listening || strings.HasPrefix(call, "nvmf_subsystem_add_listener")
		if listening && strings.HasPrefix(call, "nvmf_create_subsystem") {
			t.Errorf("%s after the first listener", call)
		}
	}
	for _, v := range all {
		if _, err := fake.Connect(consumer, subsystemOf(v.UID), listener); err != nil {
			t.Error(err)
		}
	}
}

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }
