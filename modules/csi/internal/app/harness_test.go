package app_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/app"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/filesystem/filesystemtest"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/initiator/initiatortest"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

var server *controlplanetest.Server

func TestMain(m *testing.M) {
	if os.Getenv(envLostLog) != "" {
		os.Exit(app.Main(context.Background(), []string{"--version"}, os.Getenv, os.Stderr))
	}
	ctrllog.SetLogger(logr.Discard())
	os.Exit(controlplanetest.Main(m, func(s *controlplanetest.Server) { server = s }))
}

// logBuffer is a log in memory.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// host is a machine in memory.
type host struct {
	kernel      *initiatortest.Kernel
	filesystems *filesystemtest.Host
	commands    *recorder
	app.Host
}

// recorder is a machine whose programs all fail.
type recorder struct {
	mu  sync.Mutex
	ran []string
}

func (r *recorder) Run(_ context.Context, name string, args ...string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran = append(r.ran, strings.Join(append([]string{name}, args...), " "))
	return nil, errors.New("not found in directory /lib/modules")
}

func newHost(t *testing.T) *host {
	t.Helper()
	kernel, err := initiatortest.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{kernel: kernel, commands: &recorder{}}
	h.filesystems = filesystemtest.New(func(path string) (filesystemtest.Device, bool) {
		nqn, number, found := kernel.Resolve(path)
		return filesystemtest.Device{Medium: nqn, Number: number, Size: kernel.Size(path)}, found
	})
	h.Host = app.Host{
		Initiator:   initiator.New(initiator.Options{Kernel: kernel, Sysfs: kernel.Sysfs(), Dev: kernel.Dev()}),
		Filesystems: filesystem.New(h.filesystems.Options()),
		Records:     staging.New(t.TempDir()),
		Commands:    h.commands,
	}
	return h
}

// commands lists what was run.
func (r *recorder) commands() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ran)
}

// options are those of a process of this mode, in directories of the test.
func options(t *testing.T, mode app.Mode, nodeID string) app.Options {
	t.Helper()
	dir, err := os.MkdirTemp("", "csi") // short: a socket's path is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	registry := filepath.Join(dir, "plugins_registry")
	if err := os.Mkdir(registry, 0o755); err != nil {
		t.Fatal(err)
	}
	return app.Options{
		Mode: mode, Endpoint: "unix://" + filepath.Join(dir, "csi", "csi.sock"), NodeID: nodeID, KubeletDir: dir,
		Namespace: server.Namespace(t), DefaultBackend: "kernel", TopologyKey: v1alpha1.TopologyKey,
		DefaultNetworkDomain: "default", HealthAddress: "127.0.0.1:0", MetricsAddress: "0",
	}
}

// start runs the program until the test ends, and returns a connection to it
// once it is ready.
func start(t *testing.T, o app.Options, h *host) (*grpc.ClientConn, *logBuffer) {
	t.Helper()
	logged := &logBuffer{}
	log := logr.FromSlogHandler(slog.NewJSONHandler(logged, &slog.HandlerOptions{Level: slog.Level(-10)}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, o, server.Config(), h.Host, log) }()
	conn := dial(t, strings.TrimPrefix(o.Endpoint, "unix://"))
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error("the program ended with", err)
		}
	})
	eventually(t, func() bool {
		r, err := csi.NewIdentityClient(conn).Probe(t.Context(), &csi.ProbeRequest{}, grpc.WaitForReady(true))
		return err == nil && r.GetReady().GetValue()
	})
	return conn, logged
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// eventually tries until a deadline.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("not within a minute")
		}
	}
}

// labelled makes a Kubernetes node in a network domain; "" is none.
func labelled(t *testing.T, name, domain string) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if domain != "" {
		n.Labels = map[string]string{v1alpha1.TopologyKey: domain}
	}
	if err := server.Client().Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}
