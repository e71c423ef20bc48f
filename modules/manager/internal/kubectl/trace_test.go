package kubectl_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/tracing"
)

const (
	provisioned = "0af7651916cd43dd8448eb211c80319c"
	attached    = "1af7651916cd43dd8448eb211c80319c"
)

// traced lets a volume and its attachment carry contexts, and tells an Event.
func traced(t *testing.T, v *volume) {
	t.Helper()
	for o, id := range map[client.Object]string{v.partition: provisioned, v.attachment: attached} {
		o.SetAnnotations(map[string]string{tracing.TraceparentAnnotation: "00-" + id + "-b7ad6b7169203331-01"})
		if err := server.client.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	now := metav1.Now()
	create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: v.partition.Namespace, GenerateName: "exported-"},
		InvolvedObject: corev1.ObjectReference{Kind: "NVMePartition", Namespace: v.partition.Namespace, Name: v.partition.Name, UID: v.partition.UID},
		Type:           corev1.EventTypeNormal, Reason: "Exported", Message: "Slice was exported", FirstTimestamp: now, LastTimestamp: now, Count: 3,
	})
}

func TestTraceWithoutJaegerIsTheTimeline(t *testing.T) {
	ns := namespaceOf(t)
	v := newVolume(t, ns, "data")
	term := open(t, server.viewer)
	term.run(t, "trace", "data", "-n", ns).ended(t, 0, "created", "Exported=True", "no trace: none was made when the volume was")
	traced(t, v)
	r := term.run(t, "trace", "pvc/data", "-n", ns)
	r.ended(t, 0, "pvc "+ns+"/data", "PersistentVolumeClaim data", "AccessReady=True", "Exported: Slice was exported (3 times)",
		"provision  trace "+provisioned, "attach to consumer-a  trace "+attached)
	if strings.Index(r.out, "PersistentVolumeClaim data") > strings.Index(r.out, "Exported=True") {
		t.Errorf("not in order:\n%s", r.out)
	}
	var got struct {
		Volumes []struct {
			Phases   []struct{ Name, TraceID string }
			Timeline []struct{ Kind, What string }
		}
	}
	r = term.run(t, "trace", "data", "-n", ns, "-o", "json")
	r.ended(t, 0)
	r.decode(t, &got)
	if len(got.Volumes) != 1 || len(got.Volumes[0].Phases) != 2 || len(got.Volumes[0].Timeline) < 6 {
		t.Errorf("got %+v", got)
	}
}

// fakeJaeger answers as Jaeger's query service does: 404 with an error for a trace
// that it does not have.
func fakeJaeger(t *testing.T, traces map[string]string, found ...string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := strings.TrimPrefix(r.URL.Path, "/jaeger/api/traces")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case id == "" && r.URL.Query().Get("service") == "distort-csi-node":
			fmt.Fprintf(w, `{"data":[%s],"total":0,"errors":null}`, strings.Join(found, ","))
		case traces[strings.TrimPrefix(id, "/")] != "":
			fmt.Fprintf(w, `{"data":[%s],"errors":null}`, traces[strings.TrimPrefix(id, "/")])
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"data":null,"total":0,"limit":0,"offset":0,"errors":[{"code":404,"msg":"trace not found"}]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// recorded is a trace as Jaeger 1.76 returns it, shortened: a call that failed, the
// placement below it, and its retry, which links to it.
const recorded = `{"traceID":"` + provisioned + `","spans":[
 {"traceID":"` + provisioned + `","spanID":"c000000000000003","operationName":"csi.v1.Controller/CreateVolume","references":[
   {"refType":"CHILD_OF","traceID":"` + provisioned + `","spanID":"b7ad6b7169203331"},{"refType":"FOLLOWS_FROM","traceID":"` + provisioned + `","spanID":"b7ad6b7169203331"}],
  "startTime":1764504006000000,"duration":250000,"tags":[{"key":"rpc.method","type":"string","value":"CreateVolume"}],"logs":[],"processID":"p1","warnings":null},
 {"traceID":"` + provisioned + `","spanID":"b7ad6b7169203331","operationName":"csi.v1.Controller/CreateVolume","references":[],
  "startTime":1764504003000000,"duration":2000000,"tags":[{"key":"error","type":"bool","value":true},{"key":"otel.status_description","type":"string","value":"not exported yet"}],"logs":[],"processID":"p1","warnings":null},
 {"traceID":"` + provisioned + `","spanID":"c000000000000002","operationName":"place","references":[{"refType":"CHILD_OF","traceID":"` + provisioned + `","spanID":"b7ad6b7169203331"}],
  "startTime":1764504003010000,"duration":12345,"tags":[{"key":"distort.place","type":"string","value":"storage-a"}],"logs":[],"processID":"p2","warnings":null}
],"processes":{"p1":{"serviceName":"distort-csi-controller","tags":[]},"p2":{"serviceName":"distort-manager","tags":[]}},"warnings":null}`

func TestTraceFromJaegerIsATree(t *testing.T) {
	ns := namespaceOf(t)
	traced(t, newVolume(t, ns, "data"))
	staged := strings.NewReplacer(provisioned, "2af7651916cd43dd8448eb211c80319c", "csi.v1.Controller/CreateVolume", "csi.v1.Node/NodeStageVolume").Replace(recorded)
	jaeger := fakeJaeger(t, map[string]string{provisioned: recorded}, staged)
	term := open(t, server.viewer)
	r := term.run(t, "trace", "data", "-n", ns, "--jaeger-url", jaeger.URL+"/jaeger")
	r.ended(t, 0, "provision  trace "+provisioned, "not exported yet", "csi.v1.Node/NodeStageVolume", "attach to consumer-a", "Jaeger does not have it")
	var lines []string
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "    +") && len(lines) < 3 {
			lines = append(lines, strings.Join(strings.Fields(line)[:4], " "))
		}
	}
	want := []string{"+0s 2s distort-csi-controller csi.v1.Controller/CreateVolume", "+10ms 12ms distort-manager place", "+3s 250ms distort-csi-controller csi.v1.Controller/CreateVolume"}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("tree\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	r = term.run(t, "trace", "data", "-n", ns, "--jaeger-url", jaeger.URL+"/jaeger", "-o", "json")
	r.ended(t, 0)
	var got struct {
		Volumes []struct {
			Phases []struct{ Trace json.RawMessage }
		}
	}
	r.decode(t, &got)
	if !strings.Contains(string(got.Volumes[0].Phases[0].Trace), `"`+provisioned+`/b7ad6b7169203331"`) {
		t.Errorf("the link of the retry is missing: %s", got.Volumes[0].Phases[0].Trace)
	}
}

func TestTraceSaysWhatIsWrongWithJaeger(t *testing.T) {
	ns := namespaceOf(t)
	traced(t, newVolume(t, ns, "data"))
	term := open(t, server.viewer)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer page.Close()
	for address, says := range map[string]string{
		"jaeger:16686": "want http:// or https://", page.URL: "is it the address of Jaeger's page?", "http://127.0.0.1:1": "connect",
	} {
		term.run(t, "trace", "data", "-n", ns, "--jaeger-url", address).ended(t, 2, says)
	}
}
