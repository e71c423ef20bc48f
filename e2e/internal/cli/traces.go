package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/otlp"
)

// lastSpans is how long the product keeps spans before it exports them (traced), and
// some more.
const lastSpans = 3 * time.Second

// traced are the chart's values with which the product exports its spans to the lab's
// command.
func traced() []string {
	return []string{
		fmt.Sprintf("otel.OTEL_EXPORTER_OTLP_ENDPOINT=http://%s:%d", layout.HostAddress, layout.TracesPort),
		"otel.OTEL_BSP_SCHEDULE_DELAY=1000", // milliseconds
	}
}

// receiveSpans takes the product's spans until stop is called.
func receiveSpans(ctx context.Context, l *lab.Lab) (r *otlp.Receiver, stop func() error, err error) {
	overHTTP, err := l.Listen(ctx, layout.TracesPort)
	if err != nil {
		return nil, nil, err
	}
	overGRPC, err := l.Listen(ctx, layout.TracesPortGRPC)
	if err != nil {
		overHTTP.Close()
		return nil, nil, err
	}
	r = otlp.NewReceiver()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(serving, overGRPC, overHTTP) }()
	return r, func() error { cancel(); return <-ended }, nil
}

// showTraces prints the trees and writes the page, which stays when the lab goes.
func showTraces(ctx context.Context, out io.Writer, l *lab.Lab, r *otlp.Receiver) error {
	patience, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	// More spans may come until then; there is nothing that says which is the last.
	spans, _ := r.Wait(patience, func([]otlp.Span) bool { return false })
	traces := otlp.Traces(spans)
	fmt.Fprintf(out, "\nWhat the programs did, a trace for each phase (%d spans):\n", len(spans))
	if err := otlp.WriteTree(out, traces); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := otlp.WritePage(&page, "The demo's traces", traces); err != nil {
		return fmt.Errorf("make the page of traces: %w", err)
	}
	path := filepath.Join(l.LogDir(), "traces.html")
	if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the page of traces: %w", err)
	}
	fmt.Fprintf(out, "\nas a page: %s\n\n", path)
	return nil
}
