package otlp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// maxRequest is how many bytes one export may have.
const maxRequest = 64 << 20

// Receiver keeps the spans that were exported to it.
type Receiver struct {
	collectorpb.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []Span
	// changed is closed when spans come.
	changed chan struct{}
}

// NewReceiver returns a Receiver without spans.
func NewReceiver() *Receiver { return &Receiver{changed: make(chan struct{})} }

// Serve takes exports over gRPC (OTLP/gRPC) and over HTTP (OTLP/HTTP with
// protobuf) until the context ends. It closes the listeners.
func (r *Receiver) Serve(ctx context.Context, overGRPC, overHTTP net.Listener) error {
	grpcServer := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest))
	collectorpb.RegisterTraceServiceServer(grpcServer, r)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", r.post)
	httpServer := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 2)
	go func() { ended <- grpcServer.Serve(overGRPC) }()
	go func() { ended <- httpServer.Serve(overHTTP) }()
	var first error
	pending := 2
	select {
	case <-ctx.Done():
	case first = <-ended:
		pending--
	}
	grpcServer.Stop()
	errs := []error{first, httpServer.Close()}
	for range pending {
		errs = append(errs, <-ended)
	}
	for i, err := range errs {
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// Export implements OTLP/gRPC.
func (r *Receiver) Export(_ context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	r.add(read(request.GetResourceSpans()))
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// post implements OTLP/HTTP.
func (r *Receiver) post(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxRequest))
	var export collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil {
		http.Error(w, fmt.Sprintf("read export: %v", err), http.StatusBadRequest)
		return
	}
	r.add(read(export.GetResourceSpans()))
	answer, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer) // whoever asked and left does not miss the answer
}

func (r *Receiver) add(spans []Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spans = append(r.spans, spans...)
	close(r.changed)
	r.changed = make(chan struct{})
}

// Spans are those received so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// Wait returns the spans received so far once they are enough.
func (r *Receiver) Wait(ctx context.Context, enough func([]Span) bool) ([]Span, error) {
	for {
		r.mu.Lock()
		spans, changed := slices.Clone(r.spans), r.changed
		r.mu.Unlock()
		if enough(spans) {
			return spans, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return spans, fmt.Errorf("wait for spans: %w", ctx.Err())
		}
	}
}
