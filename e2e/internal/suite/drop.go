package suite

import (
	"context"
	"sync"
	"testing"

	"github.com/distort-io/distort/e2e/internal/guestexec"
)

// Drop makes a guest lose arriving packets that match, until heal is called or
// the test ends. Only what arrives: a packet filter that refuses what a host
// sends is an error to the sender (soft-RoCE ends its queue pairs, those of the
// connection manager too), which a network that is cut never is.
func Drop(t *testing.T, guest *guestexec.Client, match ...string) (heal func()) {
	t.Helper()
	rule := append(append([]string{"INPUT"}, match...), "-j", "DROP")
	change := func(ctx context.Context, action string) error {
		_, err := guest.Output(ctx, append([]string{"iptables", "-w", action}, rule...)...)
		return err
	}
	Must(t, change(t.Context(), "-I"))
	heal = sync.OnceFunc(func() {
		if err := change(context.WithoutCancel(t.Context()), "-D"); err != nil {
			t.Errorf("heal the network: %v", err)
		}
	})
	t.Cleanup(heal)
	return heal
}
