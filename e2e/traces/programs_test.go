package traces

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/otlp"
	"github.com/distort-io/distort/e2e/internal/programs"
)

const (
	namespace = programs.Namespace
	storage   = programs.Storage
	consumer  = programs.Consumer
	serial    = "TRACED-1"
	// slice is the device of the first slice on the agent's drive.
	slice = "nvme3n1p1"
)

// system is the control plane with the three programs, and a receiver of their spans.
type system struct {
	*programs.System
	t        *testing.T
	api      client.WithWatch
	receiver *otlp.Receiver
	csi      *grpc.ClientConn
}

// startSystem starts everything.
func startSystem(t *testing.T) *system {
	t.Helper()
	s := &system{t: t, receiver: otlp.NewReceiver()}
	overGRPC, overHTTP := s.receive()
	s.System = programs.Start(t, programs.Options{
		Env: overGRPC, ManagerEnv: overHTTP, Node: []string{"DISTORT_HELPER_SERIAL=" + serial},
		Flags: map[string][]string{programs.Agent: {"--check-interval=1s", "--scan-interval=1s"}},
	})
	s.api, s.csi = s.API, s.CSI
	return s
}

// receive starts the receiver and returns the environments of programs that
// export to it.
func (s *system) receive() (overGRPC, overHTTP []string) {
	t := s.t
	t.Helper()
	var listeners [2]net.Listener
	for i := range listeners {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		listeners[i] = l
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.receiver.Serve(ctx, listeners[0], listeners[1]) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	env := func(protocol string, l net.Listener) []string {
		// The delay of batches, in milliseconds.
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_BSP_SCHEDULE_DELAY=50"}
	}
	return env("grpc", listeners[0]), env("http/protobuf", listeners[1])
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
