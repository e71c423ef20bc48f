package reference

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// writeConditions lists each type of a condition with the reasons that are declared
// after it, up to the next type.
func writeConditions(tree *repo.Tree, b *bytes.Buffer) error {
	b.WriteString("\nA reason is *retryable* when it goes by itself, and *terminal* when somebody has to do something.\n")
	return eachFile(tree, "modules/api/v1alpha1", func(path string, f *ast.File) error {
		var rows [][]string
		for _, c := range constants(f) {
			if strings.HasPrefix(c.name, "Condition") {
				what := c.doc
				if what == "" {
					what = c.group
				}
				rows = append(rows, []string{"**" + c.value + "**", "", what})
			} else if strings.HasPrefix(c.name, "Reason") {
				rows = append(rows, []string{"", code(c.value), c.doc})
			}
		}
		if len(rows) == 0 {
			return nil
		}
		fmt.Fprintf(b, "\n## %s\n", kindIn(path, f))
		return table(b, []string{"condition", "reason", "what"}, rows)
	})
}

// kindIn is the kind that a file declares, or the file's name: kinds are in files that
// are called as they are.
func kindIn(path string, f *ast.File) string {
	name := strings.TrimSuffix(path[strings.LastIndex(path, "/")+1:], ".go")
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			if t := spec.(*ast.TypeSpec).Name.Name; strings.ToLower(t)+"_types" == name {
				return t
			}
		}
	}
	return name
}

// writeParameters lists what a StorageClass can say, by the constants that name it.
func writeParameters(tree *repo.Tree, b *bytes.Buffer) error {
	b.WriteString("\nA parameter that is not here is refused, with the name of the nearest that is. [The driver's README](../../modules/csi/README.md) says what they are for.\n")
	var rows [][]string
	for _, from := range []struct{ dir, prefix string }{
		{"modules/csi/internal/request", "Parameter"}, {"modules/csi/internal/volumecontext", "Key"},
	} {
		err := eachFile(tree, from.dir, func(_ string, f *ast.File) error {
			for _, c := range constants(f) {
				if strings.HasPrefix(c.name, from.prefix) {
					rows = append(rows, []string{code(c.value), c.doc})
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	return table(b, []string{"parameter", "what"}, rows)
}
