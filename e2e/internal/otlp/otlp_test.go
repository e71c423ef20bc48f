package otlp

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
)

// recorded is an export as the three programs made it in e2e/traces: a provisioning
// whose export failed at first, and the attachment that it caused.
func recorded(t *testing.T) *collectorpb.ExportTraceServiceRequest {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "provision.json"))
	if err != nil {
		t.Fatal(err)
	}
	request := &collectorpb.ExportTraceServiceRequest{}
	if err := protojson.Unmarshal(text, request); err != nil {
		t.Fatal(err)
	}
	return request
}

func TestBothProtocolsAreReceived(t *testing.T) {
	r := NewReceiver()
	var listeners [2]net.Listener
	for i := range listeners {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = l
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(ctx, listeners[0], listeners[1]) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	request := recorded(t)
	conn, err := grpc.NewClient(listeners[0].Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := collectorpb.NewTraceServiceClient(conn).Export(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body []byte
		code int
	}{{body, http.StatusOK}, {[]byte("nonsense"), http.StatusBadRequest}} {
		response, err := http.Post("http://"+listeners[1].Addr().String()+"/v1/traces", "application/x-protobuf", bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.code {
			t.Errorf("answered %s, want %d", response.Status, c.code)
		}
	}
	wait, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	one := len(read(request.GetResourceSpans()))
	if _, err := r.Wait(wait, func(spans []Span) bool { return len(spans) == 2*one }); err != nil {
		t.Errorf("%d spans, want %d twice: %v", len(r.Spans()), one, err)
	}
	brief, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if _, err := r.Wait(brief, func([]Span) bool { return false }); err == nil {
		t.Error("a wait in vain ended without an error")
	}
}

func TestTreeShowsParentsRetriesAndFailures(t *testing.T) {
	var out strings.Builder
	if err := WriteTree(&out, Traces(read(recorded(t).GetResourceSpans()))); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimRight(line, "\n"))
	}
	want := []string{
		"",
		"CreateVolume pvc-1  3.25s  trace 0af7651916cd43dd8448eb211c80319c",
		"  +0s     2s     csi.v1.Controller/CreateVolume    distort-csi-controller  FAILED: not exported yet",
		"  +10ms   12ms     place                           distort-manager         ",
		"  +40ms   500ms    export                          distort-agent           FAILED: slice is in use on this node",
		"  +3s     250ms    csi.v1.Controller/CreateVolume  distort-csi-controller  again, after b7ad6b7169203331",
		"  +3.05s  100ms    export                          distort-agent           again, after b7ad6b7169203333",
		"",
		"ControllerPublishVolume pvc-1  90ms  trace 1af7651916cd43dd8448eb211c80319c",
		"  +0s    90ms  csi.v1.Controller/ControllerPublishVolume  distort-csi-controller  ",
		"  +20ms  30ms    grant                                    distort-agent           ",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOrphansAreKept(t *testing.T) {
	spans := read(recorded(t).GetResourceSpans())
	spans = spans[1:] // without the first call
	trace := Traces(spans)[0]
	if len(trace.Orphans) == 0 || len(trace.Roots) != 0 {
		t.Errorf("%d orphans, %d roots", len(trace.Orphans), len(trace.Roots))
	}
}

func TestPageShowsEverythingAndNeedsNothing(t *testing.T) {
	traces := Traces(read(recorded(t).GetResourceSpans()))
	var out strings.Builder
	if err := WritePage(&out, "A volume's <life>", traces); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"A volume&#39;s &lt;life&gt;", "slice is in use on this node", "distort.place", "storage-1", "link: first attempt", "link: cause",
		`href="#0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"`, `id="0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"`,
		"left:0.308%;width:0.369%",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"http://", "https://", "src=", "@import", "url(", "ZgotmplZ"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	if n := strings.Count(text, "<details"); n != 7 {
		t.Errorf("%d spans on the page, want 7", n)
	}
}
