// Package realspdk gives tests a real nvmf_tgt where there is one.
package realspdk

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// SocketVariable names the socket of a target that runs already.
const SocketVariable = "SPDK_TARGET_SOCK"

const patience = 30 * time.Second

// Client returns the client of a real target, and a directory in which that sees
// files: the target behind SPDK_TARGET_SOCK, or an nvmf_tgt from PATH that is started
// for the test, on one core, without hugepages and without PCI devices. Without both
// the test is skipped.
func Client(t *testing.T) (*rpc.Client, string) {
	t.Helper()
	socket := os.Getenv(SocketVariable)
	if socket == "" {
		program, err := exec.LookPath("nvmf_tgt")
		if err != nil {
			t.Skipf("no real SPDK: set %s, or have nvmf_tgt in PATH", SocketVariable)
		}
		socket = start(t, program)
	}
	client := rpc.New(socket)
	t.Cleanup(func() { client.Close() })
	if err := ready(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	version, err := client.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("SPDK %s behind %s", version, socket)
	return client, filepath.Dir(socket)
}

func start(t *testing.T, program string) string {
	t.Helper()
	// A path of a socket has at most 107 bytes, which a test's directory may exceed.
	dir, err := os.MkdirTemp("", "spdk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "spdk.sock")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	target := exec.Command(program, "-r", socket, "-m", "0x1", "-s", "512", "--no-huge", "--no-pci")
	target.Stdout, target.Stderr = log, log
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- target.Wait() }()
	t.Cleanup(func() {
		_ = target.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case err = <-ended:
		case <-time.After(patience):
			_ = target.Process.Kill()
			err = fmt.Errorf("it did not end in %s: %w", patience, <-ended)
		}
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			t.Errorf("nvmf_tgt: %v\n%s", err, text)
		}
	})
	return socket
}

// ready waits until the target answers.
func ready(ctx context.Context, client *rpc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := client.Call(ctx, "framework_wait_init", nil, nil)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nvmf_tgt does not answer: %w", err)
		}
	}
}

// AIO makes a bdev of this size in bytes over a file in dir, until the end of the
// test.
func AIO(t *testing.T, client *rpc.Client, dir, name string, bytes int64) {
	t.Helper()
	file := filepath.Join(dir, name+".img")
	f, err := os.Create(file)
	if err == nil {
		err = f.Truncate(bytes)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Cleanup(func() { os.Remove(file) })
	register(t, client, "bdev_aio_create", "bdev_aio_delete", name, map[string]any{"name": name, "filename": file, "block_size": 4096})
}

// Malloc makes a bdev of 16 MiB in memory, until the end of the test.
func Malloc(t *testing.T, client *rpc.Client, name string) {
	t.Helper()
	register(t, client, "bdev_malloc_create", "bdev_malloc_delete", name, map[string]any{"name": name, "num_blocks": 4096, "block_size": 4096})
}

func register(t *testing.T, client *rpc.Client, create, remove, name string, params map[string]any) {
	t.Helper()
	if err := client.Call(t.Context(), create, params, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Call(context.Background(), remove, map[string]any{"name": name}, nil); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}
