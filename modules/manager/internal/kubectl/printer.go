package kubectl

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// style is an ANSI colour; the zero style is none.
type style string

const (
	good  style = "32"
	bad   style = "31;1"
	busy  style = "33"
	faint style = "2"
	head  style = "1"
)

// cell is a text in a table.
type cell struct {
	text  string
	style style
}

func plain(text string) cell { return cell{text: text} }

// printer writes for people; with colours when a person watches.
type printer struct {
	out    io.Writer
	colour bool
}

func newPrinter(out io.Writer) *printer {
	p := &printer{out: out}
	if file, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		info, err := file.Stat()
		p.colour = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *printer) paint(c cell) string {
	if !p.colour || c.style == "" || c.text == "" {
		return c.text
	}
	return "\x1b[" + string(c.style) + "m" + c.text + "\x1b[0m"
}

// table writes rows with aligned columns, each line after an indent.
func (p *printer) table(indent string, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		last := len(row) - 1
		for last >= 0 && row[last].text == "" {
			last--
		}
		var line strings.Builder
		for i := 0; i <= last; i++ {
			line.WriteString(p.paint(row[i]))
			if i < last {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(row[i].text)+2))
			}
		}
		p.printf("%s%s\n", indent, line.String())
	}
}

func (p *printer) json(value any) error {
	encoder := json.NewEncoder(p.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// unreadable says what the user has no right to.
func (p *printer) unreadable(all []explain.Unreadable) {
	for _, u := range all {
		p.printf("not readable: %s\n", strings.TrimSpace(u.Kind+" "+u.Name)+": "+u.Error)
	}
}

// size is a number of bytes with one decimal at most: 512Mi, 7.9Gi.
func size(bytes int64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + units[unit]
}

// barWidth is the length of a bar in cells.
const barWidth = 20

// bar shows a part of a whole, and its share. What is not empty has at least one
// cell, and what is not full leaves one.
func bar(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	part = min(max(part, 0), whole)
	share := float64(part) / float64(whole)
	cells := int(share*barWidth + 0.5)
	if part > 0 {
		cells = max(cells, 1)
	}
	if part < whole {
		cells = min(cells, barWidth-1)
	}
	return fmt.Sprintf("%s%s %3.0f%%", strings.Repeat("█", cells), strings.Repeat("░", barWidth-cells), share*100)
}
