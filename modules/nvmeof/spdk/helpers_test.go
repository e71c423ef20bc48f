package spdk_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

const (
	volume  = "nqn.2026-02.io.distort:volume-a"
	hostOld = "nqn.2026-01.io.distort:host-00000000000000000000000000000001"
	hostNew = "nqn.2026-01.io.distort:host-00000000000000000000000000000002"
	hostToo = "nqn.2026-01.io.distort:host-00000000000000000000000000000003"
)

var (
	diskA, diskB = spdk.DevicePath("A"), spdk.DevicePath("B")
	portA        = mustListener("tcp://127.0.0.1:4420")
	portB        = mustListener("tcp://[::1]:4420")
)

func mustListener(s string) nvmeof.Listener {
	l, err := nvmeof.ParseListener(s)
	if err != nil {
		panic(err)
	}
	return l
}

// export is a complete subsystem on A.
func export(hosts ...string) nvmeof.Subsystem {
	id := nvmeof.DeriveUUID(volume)
	return nvmeof.Subsystem{
		NQN: volume, Serial: "DISTORT1", Model: "DISTORT",
		Namespaces:   []nvmeof.Namespace{{NSID: 1, DevicePath: diskA, UUID: id, NGUID: id.NGUID()}},
		AllowedHosts: hosts,
		Listeners:    []nvmeof.Listener{portA},
	}
}

// start starts a fake with the bdevs A and B. At the end of the test it has seen no
// two changes of one object at once.
func start(t *testing.T, opts ...spdkfake.Option) *spdkfake.Server {
	t.Helper()
	fake, err := spdkfake.Start(filepath.Join(t.TempDir(), "spdk.sock"), append(opts, spdkfake.WithAddresses("127.0.0.1", "::1"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fake.Close()
		if c := fake.Collisions(); len(c) > 0 {
			t.Errorf("changes of one object in flight together: %v", c)
		}
	})
	bdevs(t, client(t, fake), "A", "B")
	return fake
}

// client is the client of a process that has just started: it remembers nothing.
func client(t *testing.T, fake *spdkfake.Server) *rpc.Client {
	t.Helper()
	c := rpc.New(fake.Socket())
	t.Cleanup(func() { c.Close() })
	return c
}

func target(t *testing.T, fake *spdkfake.Server) *spdk.Target { return spdk.New(client(t, fake)) }

// bdevs makes malloc bdevs of 8 MiB.
func bdevs(t *testing.T, c *rpc.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		call(t, c, "bdev_malloc_create", fmt.Sprintf(`{"name":%q,"num_blocks":2048,"block_size":4096}`, name))
	}
}

// raw are parameters as text.
type raw string

// MarshalJSON implements json.Marshaler.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// call is a call that must succeed, by somebody who is not the target under test.
func call(t *testing.T, c *rpc.Client, method, params string) {
	t.Helper()
	if err := c.Call(t.Context(), method, raw(params), nil); err != nil {
		t.Fatal(err)
	}
}

func ensure(t *testing.T, target *spdk.Target, want nvmeof.Subsystem) nvmeof.Report {
	t.Helper()
	report, err := target.Ensure(t.Context(), want)
	if err != nil {
		t.Fatalf("Ensure: %v", err)
	}
	return report
}
