package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// eachFile parses the Go files of a folder and those below it, tests excepted.
func eachFile(tree *repo.Tree, dir string, visit func(path string, f *ast.File) error) error {
	root := filepath.Join(tree.Root, filepath.FromSlash(dir))
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(tree.Root, path)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(below), f)
	})
}

// constant is a string constant of a file.
type constant struct {
	name, value, doc string
	// group is the comment of the declaration that it is in.
	group string
}

// constants are the string constants of a file, in order.
func constants(f *ast.File) []constant {
	var all []constant
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			if len(v.Names) != 1 || len(v.Values) != 1 {
				continue
			}
			if value, ok := text(v.Values[0]); ok {
				all = append(all, constant{v.Names[0].Name, value, said(v.Names[0].Name, v.Doc.Text()+v.Comment.Text()), g.Doc.Text()})
			}
		}
	}
	return all
}

// text is the value of a string literal.
func text(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(l.Value)
	return value, err == nil
}

// said is a docstring without the name that it begins with.
func said(name, doc string) string {
	doc = strings.Join(strings.Fields(doc), " ")
	doc = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(doc, name), ":"))
	for _, verb := range []string{"is ", "are "} {
		doc = strings.TrimPrefix(doc, verb)
	}
	return doc
}
