package spdk_test

import (
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/realspdk"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
)

func TestRealTargetConforms(t *testing.T) {
	client, dir := realspdk.Client(t)
	aio, spare := fmt.Sprintf("aio%d", os.Getpid()), fmt.Sprintf("malloc%d", os.Getpid())
	realspdk.AIO(t, client, dir, aio, 16<<20)
	realspdk.Malloc(t, client, spare)
	nvmeoftest.RunConformance(t, nvmeoftest.Env{
		Target:    spdk.New(client),
		Devices:   []string{spdk.DevicePath(aio), spdk.DevicePath(spare)},
		Listeners: freeListeners(t),
		Damage:    damage(client, spare),
	})
}

// freeListeners are addresses of this host that nobody uses, IPv6 where it has that.
func freeListeners(t *testing.T) []nvmeof.Listener {
	t.Helper()
	var out []nvmeof.Listener
	for _, host := range []string{"127.0.0.1", "127.0.0.1", "[::1]"} {
		l, err := net.Listen("tcp", host+":0")
		if err != nil && len(out) >= 2 {
			t.Logf("without IPv6: %v", err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // after all have been found, so that they differ
		out = append(out, mustListener("tcp://"+l.Addr().String()))
	}
	return out
}
