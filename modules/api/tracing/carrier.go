// Package tracing carries a W3C trace context on Kubernetes objects.
package tracing

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations that hold the trace context of the request that made an object.
const (
	TraceparentAnnotation = "storage.distort.io/traceparent"
	TracestateAnnotation  = "storage.distort.io/tracestate"
)

var annotations = map[string]string{
	"traceparent": TraceparentAnnotation,
	"tracestate":  TracestateAnnotation,
}

// Carrier reads and writes the trace context of an object. It has the methods
// of OpenTelemetry's propagation.TextMapCarrier without importing it, and
// ignores keys other than those of W3C trace context.
type Carrier struct{ Object metav1.Object }

// Get returns the value for a key of W3C trace context, or "".
func (c Carrier) Get(key string) string {
	annotation, known := annotations[key]
	if !known {
		return ""
	}
	return c.Object.GetAnnotations()[annotation]
}

// Set stores a value unless the object has one: the context of the request that
// made the object stays, later requests link to it (design.md §8).
func (c Carrier) Set(key, value string) {
	annotation, known := annotations[key]
	if !known || value == "" {
		return
	}
	all := c.Object.GetAnnotations()
	if _, fixed := all[annotation]; fixed {
		return
	}
	if all == nil {
		all = map[string]string{}
	}
	all[annotation] = value
	c.Object.SetAnnotations(all)
}

// Keys lists the keys that have a value.
func (c Carrier) Keys() []string {
	var keys []string
	for _, key := range []string{"traceparent", "tracestate"} {
		if c.Get(key) != "" {
			keys = append(keys, key)
		}
	}
	return keys
}
