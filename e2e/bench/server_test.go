package bench

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/kubernetes"

	"github.com/distort-io/distort/e2e/internal/programs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// requests are those that the API server has answered for the product's kinds, by
// "verb resource", with "409 resource" for conflicts.
type requests map[string]float64

// count reads them from the API server's own metrics.
func count(t *testing.T, s *programs.System) requests {
	t.Helper()
	clients, err := kubernetes.NewForConfig(s.Config)
	must(t, err)
	text, err := clients.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	must(t, err)
	return parse(t, text)
}

func parse(t *testing.T, text []byte) requests {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	must(t, err)
	out := requests{}
	for _, m := range families["apiserver_request_total"].GetMetric() {
		label := labels(m)
		if label["group"] != v1alpha1.GroupVersion.Group || label["verb"] == "WATCH" {
			continue
		}
		what := label["resource"]
		if label["subresource"] != "" {
			what += "/" + label["subresource"]
		}
		out[label["verb"]+" "+what] += m.GetCounter().GetValue()
		if label["code"] == "409" {
			out["409 "+what] += m.GetCounter().GetValue()
		}
	}
	return out
}

func labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.GetLabel() {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// since is what was counted after before.
func (r requests) since(before requests) requests {
	out := maps.Clone(r)
	for what, n := range before {
		if out[what] -= n; out[what] == 0 {
			delete(out, what)
		}
	}
	return out
}

// writes sums up what changed something.
func (r requests) writes() float64 {
	sum := 0.0
	for what, n := range r {
		switch verb, _, _ := strings.Cut(what, " "); verb {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
			sum += n
		}
	}
	return sum
}

func TestRequestsAreReadByVerbAndResource(t *testing.T) {
	const text = `# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",group="storage.distort.io",resource="nvmepartitions",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 7
apiserver_request_total{code="409",component="apiserver",group="storage.distort.io",resource="nvmepartitions",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 2
apiserver_request_total{code="201",component="apiserver",group="storage.distort.io",resource="nvmepartitions",scope="resource",subresource="",verb="POST",version="v1alpha1"} 3
apiserver_request_total{code="200",component="apiserver",group="storage.distort.io",resource="nvmepartitions",scope="cluster",subresource="",verb="LIST",version="v1alpha1"} 5
apiserver_request_total{code="0",component="apiserver",group="storage.distort.io",resource="nvmepartitions",scope="cluster",subresource="",verb="WATCH",version="v1alpha1"} 9
apiserver_request_total{code="200",component="apiserver",group="floor.storage.distort.io",resource="nvmepartitions",scope="resource",subresource="",verb="PATCH",version="v1alpha1"} 11
`
	got := parse(t, []byte(text))
	want := requests{"PATCH nvmepartitions/status": 9, "409 nvmepartitions/status": 2, "POST nvmepartitions": 3, "LIST nvmepartitions": 5}
	if !maps.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
	if got.writes() != 12 {
		t.Errorf("%v writes, want 12", got.writes())
	}
	if d := got.since(requests{"POST nvmepartitions": 3, "LIST nvmepartitions": 1}); d["LIST nvmepartitions"] != 4 || d["POST nvmepartitions"] != 0 {
		t.Errorf("since: %v", d)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
