package app_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the manager's packages, as seen from this one.
const root = ".."

// writers are the names of the functions that pass a write on; what counts is
// who calls them.
var writers = []string{"Patch", "Status", "Delete", "patch", "patchStatus"}

// effectsInCode searches the code for writes: "claim/release.go:44". It fails the
// test when one does not go through package write.
func effectsInCode(t *testing.T) []string {
	t.Helper()
	var effects []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || slices.Contains(writers, function.Name.Name) {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 || !isIdent(call.Args[0], "ctx") {
					return true
				}
				selector, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				at := files.Position(selector.Sel.Pos())
				site := fmt.Sprintf("%s:%d", filepath.ToSlash(name), at.Line)
				switch method := selector.Sel.Name; {
				case slices.Contains(writers, method) && (isIdent(selector.X, "write") || isIdent(selector.X, "r")):
					effects = append(effects, site)
				case slices.Contains([]string{"Create", "Update", "Patch", "Delete", "DeleteAllOf", "Apply"}, method):
					t.Errorf("%s writes with %s and not through package write", site, method)
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatalf("search the code for writes: %v", err)
	}
	if len(effects) == 0 {
		t.Fatal("found no write in the code")
	}
	return effects
}

func isIdent(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

// caller is the write of this module's code that the calling goroutine is in, in
// the form of effectsInCode.
func caller() string {
	const module = "/modules/manager/internal/"
	programs := make([]uintptr, 64)
	frames := runtime.CallersFrames(programs[:runtime.Callers(2, programs)])
	for {
		frame, more := frames.Next()
		_, path, ours := strings.Cut(frame.File, module)
		method := frame.Function[strings.LastIndex(frame.Function, ".")+1:]
		if ours && !strings.HasSuffix(path, "_test.go") && !slices.Contains(writers, method) {
			return fmt.Sprintf("%s:%d", path, frame.Line)
		}
		if !more {
			return "unknown"
		}
	}
}
