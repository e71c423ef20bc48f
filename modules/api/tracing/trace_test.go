package tracing

import (
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func annotated(traceparent string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{UID: "6f1c", Annotations: map[string]string{TraceparentAnnotation: traceparent}}
}

func TestOnlyAWellFormedContextIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		used  bool
	}{
		"sampled":               {parent, true},
		"not sampled":           {parent[:54] + "0", true},
		"none":                  {"", false},
		"no trace":              {"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", false},
		"no span":               {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false},
		"the forbidden version": {"ff" + parent[2:], false},
		"upper case":            {strings.ToUpper(parent), false},
		"something after it":    {parent + ",x=y", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := annotated(c.value)
			want, id := "", ""
			if c.used {
				want, id = c.value, "0af7651916cd43dd8448eb211c80319c"
			}
			if got := Traceparent(o); got != want {
				t.Errorf("Traceparent %q, want %q", got, want)
			}
			if got := ID(o, Begin); got != id {
				t.Errorf("ID %q, want %q", got, id)
			}
			for _, phase := range []Phase{Begin, End} {
				if got := Note(o, phase, "refused"); (got == "refused") == c.used {
					t.Errorf("note in phase %s: %q", phase, got)
				}
			}
		})
	}
}

func TestLaterPhasesHaveTracesOfTheirOwn(t *testing.T) {
	o := annotated(parent)
	other := annotated(parent)
	other.UID = "6f1d"
	seen := map[string]string{}
	for name, id := range map[string]string{
		"begin": ID(o, Begin), "end": ID(o, End), "end of another": ID(other, End),
		"resize": ID(o, Resize(1<<30)), "another resize": ID(o, Resize(2<<30)),
	} {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
			t.Errorf("%s: %q is no trace ID", name, id)
		}
		if same := seen[id]; same != "" {
			t.Errorf("%s and %s are one trace", name, same)
		}
		seen[id] = name
	}
	if again := ID(annotated(parent), End); again != ID(o, End) {
		t.Errorf("the same phase of the same object is trace %s and %s", ID(o, End), again)
	}
}

func TestExporterFollowsTheStandardVariables(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, c := range map[string]struct {
		env  map[string]string
		want Protocol
		says string
	}{
		"nothing is off":             {nil, Off, ""},
		"an endpoint is on":          {map[string]string{endpoint: "http://x:4318"}, HTTP, ""},
		"an endpoint for traces":     {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, HTTP, ""},
		"the exporter alone":         {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, HTTP, ""},
		"none":                       {map[string]string{endpoint: "http://x", "OTEL_TRACES_EXPORTER": "none"}, Off, ""},
		"disabled":                   {map[string]string{endpoint: "http://x", "OTEL_SDK_DISABLED": "TRUE"}, Off, ""},
		"grpc":                       {map[string]string{endpoint: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, GRPC, ""},
		"the traces' protocol first": {map[string]string{endpoint: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, GRPC, ""},
		"an unknown protocol":        {map[string]string{endpoint: "http://x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, Off, `OTEL_EXPORTER_OTLP_PROTOCOL "http/json"`},
		"an unknown exporter":        {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, Off, `OTEL_TRACES_EXPORTER "zipkin"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Exporter(func(key string) string { return c.env[key] })
			if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v; want %q and an error that says %q", got, err, c.want, c.says)
			}
		})
	}
}
