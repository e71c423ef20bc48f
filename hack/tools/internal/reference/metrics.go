package reference

import (
	"bytes"
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// metricPrefix is what the names of our metrics begin with.
const metricPrefix = "distort_"

// writeMetrics lists the metrics of each program, by the calls of the Prometheus
// library that make them.
func writeMetrics(tree *repo.Tree, b *bytes.Buffer) error {
	for _, program := range []string{"manager", "agent", "csi"} {
		rows := map[string][]string{}
		err := eachFile(tree, "modules/"+program, func(_ string, f *ast.File) error {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if m, ok := metricOf(call); ok {
						rows[m[0]] = m
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n## distort-%s\n", program)
		var sorted [][]string
		for _, m := range rows {
			sorted = append(sorted, m)
		}
		slices.SortFunc(sorted, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		if err := table(b, []string{"metric", "type", "labels", "what"}, sorted); err != nil {
			return fmt.Errorf("%s: %w", program, err)
		}
	}
	return nil
}

// metricOf reads a call like NewCounterVec(CounterOpts{Name:, Help:}, []string{…}) or
// NewDesc(name, help, []string{…}, nil).
func metricOf(call *ast.CallExpr) (row []string, ok bool) {
	f, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector || !strings.HasPrefix(f.Sel.Name, "New") || len(call.Args) == 0 {
		return nil, false
	}
	var name, help string
	var labels []string
	if opts, isLiteral := call.Args[0].(*ast.CompositeLit); isLiteral {
		for _, e := range opts.Elts {
			pair, isPair := e.(*ast.KeyValueExpr)
			if !isPair {
				continue
			}
			switch key, isName := pair.Key.(*ast.Ident); {
			case !isName:
			case key.Name == "Name":
				name, _ = text(pair.Value)
			case key.Name == "Help":
				help, _ = text(pair.Value)
			}
		}
	} else if name, _ = text(call.Args[0]); len(call.Args) > 1 {
		help, _ = text(call.Args[1])
	}
	if !strings.HasPrefix(name, metricPrefix) {
		return nil, false
	}
	for _, a := range call.Args[1:] {
		if list, isLiteral := a.(*ast.CompositeLit); isLiteral {
			for _, e := range list.Elts {
				if label, isText := text(e); isText {
					labels = append(labels, label)
				}
			}
		}
	}
	kind := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(f.Sel.Name, "New"), "Vec"))
	if kind = strings.TrimSuffix(kind, "func"); kind == "desc" {
		kind = "gauge"
	}
	return []string{code(name), kind, strings.Join(labels, ", "), help}, true
}
