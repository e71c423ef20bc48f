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

// FuzzCarrier: whatever comes as a key or a value, an object gets the annotations of
// trace context only, each once, and reads back what it got.
func FuzzCarrier(f *testing.F) {
	f.Add("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "other")
	f.Add("tracestate", "a=1,b=2", "")
	f.Add("Traceparent", "x", "y")
	f.Add(TraceparentAnnotation, "x", "y")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, key, value, later string) {
		object := &metav1.ObjectMeta{Annotations: map[string]string{"kept": "as it is"}}
		c := Carrier{Object: object}
		c.Set(key, value)
		known := key == "traceparent" || key == "tracestate"
		want := ""
		if known {
			want = value
		}
		if got := c.Get(key); got != want {
			t.Errorf("Get(%q) = %q after Set of %q", key, got, value)
		}
		stored := 1
		if want != "" {
			stored = 2
		}
		if len(object.Annotations) != stored || object.Annotations["kept"] != "as it is" {
			t.Errorf("annotations %v after Set(%q, %q)", object.Annotations, key, value)
		}
		c.Set(key, later)
		if got := c.Get(key); want != "" && got != want {
			t.Errorf("Get(%q) = %q: %q has taken the place of %q", key, got, later, want)
		}
		for _, k := range c.Keys() {
			if c.Get(k) == "" || k != key {
				t.Errorf("key %q is listed, and only %q was set", k, key)
			}
		}
	})
}
