package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/pages"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// numbered is a heading of a step.
var numbered = regexp.MustCompile(`^(\d+)\. (.+)$`)

// TestTutorialHasTheStepsOfTheDemo: the numbered headings of the tutorial are what make
// demo says that it does, in its order. That its objects are the demo's too is tested in
// package apiserver.
func TestTutorialHasTheStepsOfTheDemo(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := pages.Read(root, "docs/tutorial/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := stepsOf(t, filepath.Join(root, "e2e/internal/demo/demo.go"))
	if len(steps) < 8 {
		t.Fatalf("only %d steps were found in the demo: %q", len(steps), steps)
	}
	var told []string
	for _, heading := range page.Headings {
		if parts := numbered.FindStringSubmatch(heading); parts != nil {
			if told = append(told, parts[2]); parts[1] != strconv.Itoa(len(told)) {
				t.Errorf("heading %q: want number %d", heading, len(told))
			}
		}
	}
	for i := range max(len(steps), len(told)) {
		switch {
		case i >= len(told):
			t.Errorf("step %d of the demo is not in the tutorial: %q", i+1, steps[i])
		case i >= len(steps):
			t.Errorf("step %d of the tutorial is not in the demo: %q", i+1, told[i])
		case !says(steps[i]).MatchString(told[i]):
			t.Errorf("step %d: the tutorial says %q, the demo %q", i+1, told[i], steps[i])
		}
	}
}

// says matches what a format prints, with a letter of any case at its beginning.
func says(format string) *regexp.Regexp {
	text := regexp.QuoteMeta(format)
	text = strings.NewReplacer("%d", `\d+`, "%s", `\S+`).Replace(text)
	return regexp.MustCompile("^(?i:" + text[:1] + ")" + text[1:] + "$")
}

// stepsOf are the formats of the demo's steps in the order of the file, which is that of
// the demo.
func stepsOf(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "step" || len(call.Args) < 2 {
			return true
		}
		literal, ok := call.Args[1].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s: the title of a step is no literal", file)
		}
		format, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, format)
		return true
	})
	return steps
}
