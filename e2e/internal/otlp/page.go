package otlp

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// row is a span on the page. Left and Width are per cent of the trace's length.
type row struct {
	Span
	Depth       int
	Left, Width string
	Began, Took string
}

// section is a trace on the page.
type section struct {
	ID, Title, Began, Took string
	Rows                   []row
	Failed                 bool
}

// WritePage writes the traces as one page that needs nothing else: a waterfall for
// each, with the attributes, failures and links of every span.
func WritePage(w io.Writer, title string, traces []Trace) error {
	sections := make([]section, 0, len(traces))
	for _, t := range traces {
		begin, length := t.extent()
		s := section{ID: t.ID, Title: t.Title(), Began: begin.UTC().Format(time.RFC3339Nano), Took: brief(length)}
		t.Walk(func(span *Span, depth int) {
			s.Failed = s.Failed || span.Failed
			s.Rows = append(s.Rows, row{
				Span: *span, Depth: depth, Left: percent(span.Start.Sub(begin), length), Width: percent(span.Duration(), length),
				Began: brief(span.Start.Sub(begin)), Took: brief(span.Duration()),
			})
		})
		sections = append(sections, s)
	}
	return page.Execute(w, map[string]any{"Title": title, "Traces": sections})
}

// percent is a share of the whole; of nothing it is nothing.
func percent(part, whole time.Duration) string {
	if whole <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.3f", 100*float64(part)/float64(whole))
}
