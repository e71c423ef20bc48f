package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/manager/internal/explain"
	"github.com/distort-io/distort/modules/manager/internal/jaeger"
	"github.com/distort-io/distort/modules/manager/internal/timeline"
)

// history is what became of one volume.
type history struct {
	Subject explain.Subject `json:"subject"`
	// Phases are the traces of the volume's life, oldest first.
	Phases []phase `json:"phases"`
	// Timeline is what the objects say; absent when Jaeger was asked.
	Timeline []timeline.Entry `json:"timeline,omitempty"`
	// Unreadable is what the user has no right to.
	Unreadable []explain.Unreadable `json:"unreadable,omitempty"`
}

// phase is one trace.
type phase struct {
	Name    string `json:"name"`
	TraceID string `json:"traceID"`
	// Trace is what Jaeger has, Missing why it has nothing.
	Trace   *jaeger.Trace `json:"trace,omitempty"`
	Missing string        `json:"missing,omitempty"`
}

func newTrace(o *options) *cobra.Command {
	var address string
	command := &cobra.Command{
		Use:   "trace (pvc/NAME | pod/NAME | NAME)",
		Short: "Show what happened to a volume, step by step and with times",
		Long: `Show what happened to a volume, step by step and with times.

With --jaeger-url the spans of all programs come from Jaeger, a tree for each phase
of the volume's life. Without it, the timeline of conditions and Events is shown,
and the IDs under which traces can be found.`,
		Example: `  kubectl distort trace data -n demo
  kubectl distort trace pvc/data --jaeger-url http://localhost:16686`,
		Args: oneOf("claim or pod"),
	}
	command.Flags().StringVar(&address, "jaeger-url", "", "address of Jaeger's page, whose query API is asked")
	output := outputFlag(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		var source *jaeger.Client
		if address != "" {
			var err error
			if source, err = jaeger.New(address, o.timeout); err != nil {
				return err
			}
		}
		s, err := o.connect()
		if err != nil {
			return err
		}
		snapshots, err := s.snapshots(command.Context(), args[0])
		if err != nil {
			return err
		}
		histories := make([]history, 0, len(snapshots))
		for _, snapshot := range snapshots {
			h, err := s.history(command.Context(), snapshot, source)
			if err != nil {
				return err
			}
			histories = append(histories, h)
		}
		p := newPrinter(command.OutOrStdout())
		if output.json() {
			return p.json(map[string]any{"volumes": histories})
		}
		for i, h := range histories {
			p.history(h, i > 0)
		}
		return nil
	}
	return command
}

// history asks Jaeger, or the objects when there is no Jaeger or no trace.
func (s *session) history(ctx context.Context, snapshot explain.Snapshot, source *jaeger.Client) (history, error) {
	h := history{Subject: snapshot.Subject, Phases: phasesOf(snapshot), Unreadable: snapshot.Unreadable}
	if source != nil && len(h.Phases) > 0 {
		return h, h.ask(ctx, snapshot, source)
	}
	events, err := s.gatherer.Events(ctx, snapshot)
	h.Timeline = timeline.Of(snapshot, events)
	return h, err
}

// phasesOf are the phases that the objects of a volume know of.
func phasesOf(s explain.Snapshot) []phase {
	var phases []phase
	add := func(name string, o metav1.Object, p tracing.Phase) {
		if id := tracing.ID(o, p); id != "" {
			phases = append(phases, phase{Name: name, TraceID: id})
		}
	}
	if s.Partition == nil {
		return nil
	}
	add("provision", s.Partition, tracing.Begin)
	for i := range s.Attachments {
		a := &s.Attachments[i]
		add("attach to "+a.Spec.NodeID, a, tracing.Begin)
		if a.DeletionTimestamp != nil {
			add("detach from "+a.Spec.NodeID, a, tracing.End)
		}
	}
	if s.Partition.DeletionTimestamp != nil {
		add("delete", s.Partition, tracing.End)
	}
	return phases
}

// ask fills in what Jaeger has, and adds what nodes did with the volume, of which
// no object knows.
func (h *history) ask(ctx context.Context, s explain.Snapshot, source *jaeger.Client) error {
	for i := range h.Phases {
		trace, err := source.Trace(ctx, h.Phases[i].TraceID)
		switch {
		case errors.Is(err, jaeger.ErrNotFound):
			h.Phases[i].Missing = "Jaeger does not have it: it was not sampled, is too old, or comes later"
		case err != nil:
			return err
		default:
			h.Phases[i].Trace = &trace
		}
	}
	found, err := source.Find(ctx, "distort-csi-node", "distort.volume", s.Partition.Name, s.Partition.CreationTimestamp.Time, s.Now)
	if err != nil {
		return err
	}
	for i := range found {
		// Jaeger answers the newest first.
		h.Phases = append(h.Phases, phase{Name: "on a node", TraceID: found[len(found)-1-i].ID, Trace: &found[len(found)-1-i]})
	}
	return nil
}

// history writes the phases as trees, or the timeline.
func (p *printer) history(h history, again bool) {
	if again {
		p.printf("\n")
	}
	p.printf("%s\n", p.paint(cell{h.Subject.String(), head}))
	if len(h.Timeline) > 0 {
		p.timeline(h.Timeline)
	}
	for _, one := range h.Phases {
		p.printf("\n  %s  trace %s\n", p.paint(cell{one.Name, head}), one.TraceID)
		switch {
		case one.Trace != nil:
			p.trace(*one.Trace)
		case one.Missing != "":
			p.printf("    %s\n", one.Missing)
		}
	}
	if len(h.Phases) == 0 {
		p.printf("\n  no trace: none was made when the volume was (value otel of the chart)\n")
	}
	p.unreadable(h.Unreadable)
}

func (p *printer) trace(t jaeger.Trace) {
	begin, _ := t.Begin()
	var rows [][]cell
	t.Walk(func(s *jaeger.Span, depth int) {
		row := []cell{
			{"+" + brief(s.Start.Sub(begin)), faint}, plain(brief(s.Duration)), plain(s.Service), plain(strings.Repeat("  ", depth) + s.Name), {s.Failure, bad},
		}
		if links := len(s.Links); links > 0 {
			row = append(row, cell{"links to " + strings.Join(s.Links, ", "), faint})
		}
		rows = append(rows, row)
	})
	p.table("    ", rows)
}

func (p *printer) timeline(entries []timeline.Entry) {
	var rows [][]cell
	begin := entries[0].Time
	for _, e := range entries {
		what := cell{text: e.What, style: good}
		if e.Bad {
			what.style = bad
		} else if e.What == "Event" || e.What == "created" {
			what.style = ""
		}
		said := e.Message
		if e.Reason != "" {
			said = e.Reason + ": " + said
		}
		if e.Count > 0 {
			said += fmt.Sprintf(" (%d times)", e.Count)
		}
		rows = append(rows, []cell{
			{e.Time.Format(time.RFC3339), faint}, {"+" + brief(e.Time.Sub(begin)), faint}, plain(e.Kind + " " + e.Name), what, plain(strings.TrimSuffix(said, ": ")),
		})
	}
	p.printf("\n")
	p.table("  ", rows)
}

// brief is a duration with three digits or so.
func brief(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
