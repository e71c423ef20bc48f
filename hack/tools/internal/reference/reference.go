// Package reference writes the pages of docs/reference from what the code says: the
// kinds from their CRDs, conditions and StorageClass parameters from the constants
// that declare them, metrics from the calls that make them, and the chart's values
// from values.yaml. Nothing in these pages is written by hand.
package reference

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// Dir is where the pages are.
const Dir = "docs/reference"

// page is one document.
type page struct {
	name, title, from string
	write             func(*repo.Tree, *bytes.Buffer) error
}

var pages = []page{
	{"kinds.md", "Kinds", "modules/api/v1alpha1", writeKinds},
	{"conditions.md", "Conditions and their reasons", "modules/api/v1alpha1", writeConditions},
	{"parameters.md", "Parameters of a StorageClass", "modules/csi", writeParameters},
	{"metrics.md", "Metrics", "modules", writeMetrics},
	{"chart-values.md", "Values of the chart", "charts/distort/values.yaml", writeValues},
}

// Write writes all pages.
func Write(tree *repo.Tree) error {
	dir := filepath.Join(tree.Root, filepath.FromSlash(Dir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range pages {
		var b bytes.Buffer
		fmt.Fprintf(&b, "# %s\n\nMade by `make generate` from `%s`.\n", p.title, p.from)
		if err := p.write(tree, &b); err != nil {
			return fmt.Errorf("%s/%s: %w", Dir, p.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, p.name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// table writes a table, and says so when it has no rows: a page without content means
// that its source was not understood.
func table(b *bytes.Buffer, head []string, rows [][]string) error {
	if len(rows) == 0 {
		return fmt.Errorf("no %s was found", head[0])
	}
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + cell(c) + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	line(head)
	b.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, r := range rows {
		line(r)
	}
	return nil
}

// cell is text on one line of a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
