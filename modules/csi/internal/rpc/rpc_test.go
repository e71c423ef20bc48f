package rpc

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/distort-io/distort/modules/csi/internal/redact"
)

func TestSocketPathHasOneGrammar(t *testing.T) {
	if got, err := SocketPath("unix:///run/x/csi.sock"); err != nil || got != "/run/x/csi.sock" {
		t.Errorf("got %q, %v", got, err)
	}
	for name, endpoint := range map[string]string{
		"tcp":                  "tcp://127.0.0.1:1",
		"no scheme":            "/run/x/csi.sock",
		"relative":             "unix://run/x/csi.sock",
		"not canonical":        "unix:///run/../x/csi.sock",
		"in the root":          "unix:///csi.sock",
		"longer than a socket": "unix:///run/" + strings.Repeat("x", 110),
	} {
		if got, err := SocketPath(endpoint); err == nil {
			t.Errorf("%s: accepted as %q", name, got)
		}
	}
}

func TestSocketIsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "wide")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "csi.sock")
	l, err := Listen(t.Context(), path, true)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, l)
	for p, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", p, info.Mode().Perm(), want)
		}
	}
}

func TestListenReplacesASocketAndNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d", "csi.sock")
	first, err := Listen(t.Context(), path, true)
	if err != nil {
		t.Fatal(err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Listen(t.Context(), path, true)
	if err != nil {
		t.Fatalf("over the socket of a killed process: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), path, true); err == nil {
		t.Error("replaced a file")
	}
}

func closeAtEnd(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// identity is a service whose Probe does what the test wants.
type identity struct {
	csi.UnimplementedIdentityServer
	probe func(context.Context) error
}

func (i identity) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, i.probe(ctx)
}

// accepting is a controller that accepts everything.
type accepting struct {
	csi.UnimplementedControllerServer
}

func (accepting) CreateVolume(context.Context, *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{}, nil
}

type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// start serves the handler and returns a client, the log, and how to stop.
func start(t *testing.T, patience time.Duration, probe func(context.Context) error) (*grpc.ClientConn, *buffer, func() error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d", "csi.sock")
	l, err := Listen(t.Context(), path, true)
	if err != nil {
		t.Fatal(err)
	}
	logged := &buffer{}
	log := logr.FromSlogHandler(slog.NewJSONHandler(logged, &slog.HandlerOptions{Level: slog.Level(-10)}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, l, log, redact.New([]string{"transport"}), func(r grpc.ServiceRegistrar) {
			csi.RegisterIdentityServer(r, identity{probe: probe})
			csi.RegisterControllerServer(r, accepting{})
		}, patience)
	}()
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, conn)
	t.Cleanup(cancel)
	return conn, logged, func() error { cancel(); return <-ended }
}

func TestAPanicIsAnAnswerAndTheServerLives(t *testing.T) {
	calls := 0
	conn, logged, _ := start(t, time.Second, func(context.Context) error {
		if calls++; calls == 1 {
			panic("boom")
		}
		return nil
	})
	client := csi.NewIdentityClient(conn)
	_, err := client.Probe(t.Context(), &csi.ProbeRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
		t.Errorf("got %v, want Internal without the panic", err)
	}
	if !strings.Contains(logged.String(), "boom") {
		t.Errorf("log lacks the panic: %s", logged)
	}
	if _, err := client.Probe(t.Context(), &csi.ProbeRequest{}); err != nil {
		t.Errorf("after the panic: %v", err)
	}
}

func TestEveryCallHasADeadline(t *testing.T) {
	conn, _, _ := start(t, time.Second, func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			return status.Error(codes.Unknown, "no deadline")
		}
		return nil
	})
	if _, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{}); err != nil {
		t.Error(err)
	}
}

// TestSecretsAreNeverLogged is SE7 at the most talkative level.
func TestSecretsAreNeverLogged(t *testing.T) {
	const canary = "canary-91ab"
	conn, logged, _ := start(t, time.Second, func(context.Context) error { return nil })
	_, err := csi.NewControllerClient(conn).CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name:       "pvc-1",
		Secrets:    map[string]string{"password": canary},
		Parameters: map[string]string{"transport": "tcp", "passwd": canary},
	})
	if err != nil {
		t.Fatal(err)
	}
	if text := logged.String(); strings.Contains(text, canary) || !strings.Contains(text, `"transport":"tcp"`) || !strings.Contains(text, "requestID") {
		t.Errorf("log: %s", text)
	}
}

func TestStopWaitsForRunningCallsButNotForEver(t *testing.T) {
	for name, obedient := range map[string]bool{"a call that ends": true, "a call that does not": false} {
		t.Run(name, func(t *testing.T) {
			running, end := make(chan struct{}), make(chan struct{})
			patience := 50 * time.Millisecond
			if obedient {
				patience = time.Minute
			}
			conn, _, stop := start(t, patience, func(ctx context.Context) error {
				close(running)
				select {
				case <-end:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			answered, stopped := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := csi.NewIdentityClient(conn).Probe(context.Background(), &csi.ProbeRequest{})
				answered <- err
			}()
			<-running
			go func() { stopped <- stop() }()
			if obedient {
				close(end)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
			if err := <-answered; (err == nil) != obedient {
				t.Errorf("answer %v", err)
			}
		})
	}
}
