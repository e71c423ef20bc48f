package otlp

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// extent is when the first span of a trace began, and how long it took until the
// last one ended.
func (t Trace) extent() (begin time.Time, length time.Duration) {
	var end time.Time
	t.Walk(func(s *Span, _ int) {
		if begin.IsZero() || s.Start.Before(begin) {
			begin = s.Start
		}
		if s.End.After(end) {
			end = s.End
		}
	})
	return begin, end.Sub(begin)
}

// Title says what a trace is about: its first span and that one's volume or object.
func (t Trace) Title() string {
	title := ""
	t.Walk(func(s *Span, _ int) {
		if title != "" {
			return
		}
		_, title, _ = strings.Cut(s.Name, "/")
		if title == "" {
			title = s.Name
		}
		for _, key := range []string{"distort.volume", "distort.object"} {
			if of := s.Attribute(key); of != "" {
				title += " " + of
				return
			}
		}
	})
	return title
}

// WriteTree writes the traces as trees, with when each span began and how long it
// took.
func WriteTree(w io.Writer, traces []Trace) error {
	for _, t := range traces {
		begin, length := t.extent()
		fmt.Fprintf(w, "\n%s  %s  trace %s\n", t.Title(), brief(length), t.ID)
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		t.Walk(func(s *Span, depth int) {
			fmt.Fprintf(table, "  +%s\t%s\t%s%s\t%s\t%s\n", brief(s.Start.Sub(begin)), brief(s.Duration()), strings.Repeat("  ", depth), s.Name, s.Service, remark(s))
		})
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// remark is what is worth a look in a span.
func remark(s *Span) string {
	var parts []string
	if s.Failed {
		parts = append(parts, "FAILED: "+s.Failure)
	}
	for _, l := range s.Links {
		if l.Relation == "first attempt" {
			parts = append(parts, "again, after "+l.ID)
		}
	}
	return strings.Join(parts, "; ")
}

// brief is a duration as a person reads it.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
