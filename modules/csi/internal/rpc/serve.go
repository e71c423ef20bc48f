package rpc

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/distort-io/distort/modules/csi/internal/redact"
)

// stopTimeout is how long running calls may take to finish when the program
// ends; kubelet kills it 30 s after it asked.
const stopTimeout = 20 * time.Second

// Serve answers calls on the listener until ctx ends, then lets running calls
// finish for a bounded time and cancels the rest. The interceptors go around
// everything else, the first one outermost.
func Serve(ctx context.Context, l net.Listener, log logr.Logger, redactor *redact.Redactor, register func(grpc.ServiceRegistrar), interceptors ...grpc.UnaryServerInterceptor) error {
	return serve(ctx, l, log, redactor, register, stopTimeout, interceptors...)
}

func serve(ctx context.Context, l net.Listener, log logr.Logger, redactor *redact.Redactor, register func(grpc.ServiceRegistrar), patience time.Duration, interceptors ...grpc.UnaryServerInterceptor) error {
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(append(interceptors, around(log, redactor))...))
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	log.Info("serving", "socket", l.Addr().String())
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stopped := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(stopped)
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-stopped:
	case <-late.C:
		log.Info("calls did not finish in time and are cancelled", "patience", patience.String())
		server.Stop()
	}
	<-served
	return nil
}
