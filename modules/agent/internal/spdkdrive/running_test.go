package spdkdrive_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// A target that somebody else runs is held to the same arithmetic as one of the
// agent's, with the pools and cores that it has.
func TestARunningTargetNeedsBuffersForTheQueues(t *testing.T) {
	for name, tc := range map[string]struct {
		queues int
		opts   []spdkfake.Option
		says   []string // nothing: it is admitted
	}{
		"its defaults":        {576, nil, nil},
		"exactly as many":     {928, nil, nil},
		"few large buffers":   {929, nil, []string{"1024 large buffers", "1 cores keep 96 each (96)", "928 that are left", "929 queues"}},
		"few small buffers":   {576, []spdkfake.Option{spdkfake.WithBuffers(512, 1024)}, []string{"512 small buffers", "192 that are left"}},
		"not initialised yet": {576, []spdkfake.Option{spdkfake.WithWaitForRPC()}, []string{"framework_get_reactors"}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			server, err := spdkfake.Start(socket, tc.opts...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			client := rpc.New(socket)
			t.Cleanup(func() { _ = client.Close() })
			// What the agent would start is of no matter here.
			plan := spdkdrive.Plan{SmallBuffers: 1, LargeBuffers: 1, Queues: tc.queues}
			err = plan.AdmitRunning(t.Context(), client)
			if (err == nil) != (tc.says == nil) {
				t.Fatalf("error %v", err)
			}
			for _, text := range tc.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not say %q", err, text)
				}
			}
			if refused := err != nil && name != "not initialised yet"; errors.Is(err, spdkdrive.ErrRefused) != refused {
				t.Errorf("%v: refused is %t, want %t", err, !refused, refused)
			}
		})
	}
}
