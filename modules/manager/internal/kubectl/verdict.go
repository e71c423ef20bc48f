package kubectl

import (
	"fmt"
	"strings"
	"time"

	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// shown is how a state is written and coloured.
var shown = map[explain.State]cell{
	explain.OK:         {"ok", good},
	explain.Waiting:    {"in progress", busy},
	explain.Broken:     {"BROKEN", bad},
	explain.Unknown:    {"not readable", busy},
	explain.Unused:     {"not needed", faint},
	explain.NotReached: {"not reached", faint},
}

// verdict writes all that is known of one volume.
func (p *printer) verdict(now time.Time, v explain.Verdict, more bool) {
	if more {
		p.printf("\n")
	}
	title := shown[v.State]
	if v.Boundary != "" {
		title.text += " at " + string(v.Boundary)
	}
	p.printf("%s: %s\n\n", p.paint(cell{v.Subject.String(), head}), p.paint(title))
	rows := make([][]cell, 0, len(v.Steps))
	for _, s := range v.Steps {
		rows = append(rows, []cell{plain(string(s.Boundary)), shown[s.State], plain(s.Message)})
	}
	p.table("  ", rows)
	if rows = p.details(now, v); len(rows) > 0 {
		p.printf("\n")
		p.table("  ", rows)
	}
}

// details are the rows of what is to be done about a verdict.
func (p *printer) details(now time.Time, v explain.Verdict) [][]cell {
	var rows [][]cell
	add := func(title, text string) {
		if text != "" {
			rows = append(rows, []cell{{title, head}, plain(text)})
		}
	}
	if v.Since != nil {
		add("since", fmt.Sprintf("%s, %s ago", v.Since.Format(time.RFC3339), explain.Age(now.Sub(*v.Since))))
	}
	if v.Owner != nil {
		add("owner", v.Owner.String())
	}
	for i, e := range v.Evidence {
		title := ""
		if i == 0 {
			title = "evidence"
		}
		add(title, evidence(e))
	}
	add("note", v.Note)
	add("next", v.Next)
	for i, u := range v.Unreadable {
		title := ""
		if i == 0 {
			title = "not readable"
		}
		add(title, strings.TrimSpace(u.Kind+" "+u.Name)+": "+u.Error)
	}
	return rows
}

func evidence(e explain.Evidence) string {
	var said []string
	for _, text := range []string{e.Condition, e.Reason} {
		if text != "" {
			said = append(said, text)
		}
	}
	text := e.Object
	if len(said) > 0 {
		text += ": " + strings.Join(said, ", ")
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	return text
}

// lines writes one line for each verdict that is not well.
func (p *printer) lines(now time.Time, verdicts []explain.Verdict) {
	well := 0
	for _, v := range verdicts {
		if v.State == explain.OK {
			well++
			continue
		}
		text := v.Message
		if v.State == explain.Waiting {
			text = "in progress: " + text
		}
		if v.Since != nil {
			text += fmt.Sprintf(" (since %s)", explain.Age(now.Sub(*v.Since)))
		}
		p.printf("%s: %s: %s\n", v.Subject, p.paint(cell{string(v.Boundary), shown[v.State].style}), text)
	}
	if well == len(verdicts) {
		p.printf("all %d volumes are well\n", well)
	}
}
