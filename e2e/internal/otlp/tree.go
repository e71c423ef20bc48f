package otlp

import (
	"cmp"
	"slices"
)

// Node is a span with those that it caused, in the order of their beginning.
type Node struct {
	Span     Span
	Children []*Node
}

// Trace is all spans of one trace.
type Trace struct {
	ID string
	// Roots have no parent.
	Roots []*Node
	// Orphans have a parent that was not received.
	Orphans []*Node
}

// Traces orders spans by trace, in the order of their beginning.
func Traces(spans []Span) []Trace {
	sorted := slices.Clone(spans)
	slices.SortStableFunc(sorted, func(a, b Span) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.ID, b.ID)) })
	nodes := map[[2]string]*Node{}
	for _, s := range sorted {
		nodes[[2]string{s.TraceID, s.ID}] = &Node{Span: s}
	}
	var traces []*Trace
	known := map[string]*Trace{}
	for _, s := range sorted {
		t := known[s.TraceID]
		if t == nil {
			t = &Trace{ID: s.TraceID}
			known[s.TraceID], traces = t, append(traces, t)
		}
		node, parent := nodes[[2]string{s.TraceID, s.ID}], nodes[[2]string{s.TraceID, s.Parent}]
		switch {
		case s.Parent == "":
			t.Roots = append(t.Roots, node)
		case parent == nil:
			t.Orphans = append(t.Orphans, node)
		default:
			parent.Children = append(parent.Children, node)
		}
	}
	out := make([]Trace, 0, len(traces))
	for _, t := range traces {
		out = append(out, *t)
	}
	return out
}

// Walk visits the spans of the trace, each before its children, with their depth.
// Orphans come last, as roots do.
func (t Trace) Walk(visit func(s *Span, depth int)) {
	var down func(nodes []*Node, depth int)
	down = func(nodes []*Node, depth int) {
		for _, n := range nodes {
			visit(&n.Span, depth)
			down(n.Children, depth+1)
		}
	}
	down(t.Roots, 0)
	down(t.Orphans, 0)
}
