package figures

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table writes rows as a table of Markdown, the first one as its head, with columns
// that line up as text too.
func Table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for i, row := range rows {
		for column, cell := range row {
			fmt.Fprintf(&b, "| %-*s ", widths[column], cell)
		}
		b.WriteString("|\n")
		if i == 0 {
			for _, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
