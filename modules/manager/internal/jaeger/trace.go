package jaeger

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Trace is one trace as a tree.
type Trace struct {
	ID    string  `json:"id"`
	Roots []*Span `json:"roots"`
}

// Span is one piece of work with those that it caused, in the order of their
// beginning.
type Span struct {
	ID      string    `json:"id"`
	Service string    `json:"service"`
	Name    string    `json:"name"`
	Start   time.Time `json:"start"`
	// Duration in nanoseconds.
	Duration time.Duration `json:"duration"`
	// Failure is why the work failed; empty when it did not.
	Failure    string            `json:"failure,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	// Links are spans that this one goes back to, as "trace/span".
	Links    []string `json:"links,omitempty"`
	Children []*Span  `json:"children,omitempty"`
}

// Begin is when the first span began, and Length the time until the last one
// ended.
func (t Trace) Begin() (time.Time, time.Duration) {
	var begin, end time.Time
	t.Walk(func(s *Span, _ int) {
		if begin.IsZero() || s.Start.Before(begin) {
			begin = s.Start
		}
		if last := s.Start.Add(s.Duration); last.After(end) {
			end = last
		}
	})
	return begin, end.Sub(begin)
}

// Walk visits each span before its children, with its depth.
func (t Trace) Walk(visit func(s *Span, depth int)) {
	var down func(spans []*Span, depth int)
	down = func(spans []*Span, depth int) {
		for _, s := range spans {
			visit(s, depth)
			down(s.Children, depth+1)
		}
	}
	down(t.Roots, 0)
}

// answer is what the query API says. Times are in microseconds.
type answer struct {
	Data   []trace `json:"data"`
	Errors []struct {
		Message string `json:"msg"`
	} `json:"errors"`
}

type trace struct {
	ID    string `json:"traceID"`
	Spans []struct {
		ID         string `json:"spanID"`
		Name       string `json:"operationName"`
		Start      int64  `json:"startTime"`
		Duration   int64  `json:"duration"`
		Process    string `json:"processID"`
		References []struct {
			Kind  string `json:"refType"`
			Trace string `json:"traceID"`
			Span  string `json:"spanID"`
		} `json:"references"`
		Tags []tag `json:"tags"`
	} `json:"spans"`
	Processes map[string]struct {
		Service string `json:"serviceName"`
	} `json:"processes"`
}

type tag struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// tree makes the tree. A span whose parent is missing is a root: it may have been
// dropped on its way.
func (t trace) tree() Trace {
	spans, parents := map[string]*Span{}, map[string]string{}
	all := make([]*Span, 0, len(t.Spans))
	for _, raw := range t.Spans {
		s := &Span{
			ID: raw.ID, Service: t.Processes[raw.Process].Service, Name: raw.Name,
			Start: time.UnixMicro(raw.Start).UTC(), Duration: time.Duration(raw.Duration) * time.Microsecond, Attributes: map[string]string{},
		}
		failed, why := false, ""
		for _, tag := range raw.Tags {
			value := fmt.Sprint(tag.Value)
			switch tag.Key {
			case "error":
				failed = value == "true"
			case "otel.status_code":
				failed = failed || value == "ERROR"
			case "otel.status_description":
				why = value
			default:
				s.Attributes[tag.Key] = value
			}
		}
		if failed {
			s.Failure = cmp.Or(why, "failed")
		}
		for _, r := range raw.References {
			if r.Kind == "CHILD_OF" && r.Trace == t.ID && parents[s.ID] == "" {
				parents[s.ID] = r.Span
			} else {
				s.Links = append(s.Links, r.Trace+"/"+r.Span)
			}
		}
		spans[s.ID], all = s, append(all, s)
	}
	slices.SortStableFunc(all, func(a, b *Span) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID)) })
	out := Trace{ID: t.ID}
	for _, s := range all {
		if parent := spans[parents[s.ID]]; parent != nil && parent != s {
			parent.Children = append(parent.Children, s)
		} else {
			out.Roots = append(out.Roots, s)
		}
	}
	return out
}
