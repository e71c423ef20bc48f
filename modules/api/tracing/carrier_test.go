package tracing

import (
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestCarrier(t *testing.T) {
	cases := map[string]struct {
		before map[string]string
		set    map[string]string
		after  map[string]string
		keys   []string
	}{
		"an object without annotations gets the context": {
			set:   map[string]string{"traceparent": parent, "tracestate": "a=b"},
			after: map[string]string{TraceparentAnnotation: parent, TracestateAnnotation: "a=b"},
			keys:  []string{"traceparent", "tracestate"},
		},
		"other annotations stay": {
			before: map[string]string{"x": "y"},
			set:    map[string]string{"traceparent": parent},
			after:  map[string]string{"x": "y", TraceparentAnnotation: parent},
			keys:   []string{"traceparent"},
		},
		"a context that is set stays": {
			before: map[string]string{TraceparentAnnotation: "first"},
			set:    map[string]string{"traceparent": parent},
			after:  map[string]string{TraceparentAnnotation: "first"},
			keys:   []string{"traceparent"},
		},
		"an empty value sets nothing":            {set: map[string]string{"traceparent": ""}},
		"a key of another propagator is ignored": {set: map[string]string{"baggage": "secret=1", TraceparentAnnotation: parent}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Annotations: tc.before}
			carrier := Carrier{object}
			for key, value := range tc.set {
				carrier.Set(key, value)
			}
			if !maps.Equal(object.Annotations, tc.after) {
				t.Errorf("annotations %v, want %v", object.Annotations, tc.after)
			}
			if got := carrier.Keys(); !slices.Equal(got, tc.keys) {
				t.Errorf("keys %v, want %v", got, tc.keys)
			}
			if got := carrier.Get("traceparent"); got != tc.after[TraceparentAnnotation] {
				t.Errorf("traceparent %q, want %q", got, tc.after[TraceparentAnnotation])
			}
			if got := carrier.Get("x"); got != "" {
				t.Errorf("Get of a foreign annotation gave %q", got)
			}
		})
	}
}
