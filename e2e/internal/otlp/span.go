// Package otlp receives spans as OpenTelemetry's programs export them, over gRPC
// and over HTTP, keeps them in memory, and orders them as trees.
package otlp

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is one received span. IDs are in hexadecimal.
type Span struct {
	TraceID string
	ID      string
	// Parent is empty for a root.
	Parent  string
	Service string
	Name    string
	Start   time.Time
	End     time.Time
	// Failed says whether the work failed, Failure why.
	Failed     bool
	Failure    string
	Attributes []Attribute
	Links      []Link
}

// Attribute is a fact about a span.
type Attribute struct{ Key, Value string }

// Link is another span that has to do with this one.
type Link struct {
	TraceID string
	ID      string
	// Relation is what that span is to this one, such as "first attempt".
	Relation string
}

// Attribute returns the value of an attribute, "" when there is none.
func (s *Span) Attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value
		}
	}
	return ""
}

// Duration is how long the work took.
func (s *Span) Duration() time.Duration { return s.End.Sub(s.Start) }

// read makes spans of one export.
func read(all []*tracepb.ResourceSpans) []Span {
	var spans []Span
	for _, resource := range all {
		service := serviceOf(resource.GetResource())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				spans = append(spans, spanOf(service, s))
			}
		}
	}
	return spans
}

func serviceOf(resource *resourcepb.Resource) string {
	for _, a := range attributesOf(resource.GetAttributes()) {
		if a.Key == "service.name" {
			return a.Value
		}
	}
	return ""
}

func spanOf(service string, s *tracepb.Span) Span {
	span := Span{
		TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
		Service: service, Name: s.GetName(),
		Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Failed:  s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
		Failure: s.GetStatus().GetMessage(), Attributes: attributesOf(s.GetAttributes()),
	}
	for _, l := range s.GetLinks() {
		link := Link{TraceID: hex.EncodeToString(l.GetTraceId()), ID: hex.EncodeToString(l.GetSpanId())}
		for _, a := range attributesOf(l.GetAttributes()) {
			if a.Key == "distort.link" {
				link.Relation = a.Value
			}
		}
		span.Links = append(span.Links, link)
	}
	return span
}

func attributesOf(all []*commonpb.KeyValue) []Attribute {
	var attributes []Attribute
	for _, a := range all {
		attributes = append(attributes, Attribute{a.GetKey(), text(a.GetValue())})
	}
	return attributes
}

// text is a value as a person reads it.
func text(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	case *commonpb.AnyValue_ArrayValue:
		var parts []string
		for _, part := range v.ArrayValue.GetValues() {
			parts = append(parts, text(part))
		}
		return strings.Join(parts, "; ")
	}
	return ""
}
