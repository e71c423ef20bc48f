package volumetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Sites collects the places in the product's code from which effects came, each
// as "package.(*Type).Function calls Name". A nil Sites collects nothing.
type Sites struct {
	mu      sync.Mutex
	reached map[string]bool
	stacks  map[stack]bool // that were taken down: most come again and again
}

// stack is as much of one as is looked at.
type stack [64]uintptr

// NewSites returns Sites without any.
func NewSites() *Sites { return &Sites{reached: map[string]bool{}, stacks: map[stack]bool{}} }

// product starts the names of functions of the product.
const product = "github.com/distort-io/distort/modules/"

// closure ends the name of a function literal.
var closure = regexp.MustCompile(`(\.func[0-9]+|\.[0-9]+|-fm|\[\.\.\.\])+$`)

// note takes down who called whom on the present stack.
func (s *Sites) note() {
	if s == nil {
		return
	}
	var pcs stack
	count := runtime.Callers(2, pcs[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stacks[pcs] {
		return
	}
	s.stacks[pcs] = true
	frames := runtime.CallersFrames(pcs[:count])
	callee := ""
	for {
		frame, more := frames.Next()
		caller := closure.ReplaceAllString(frame.Function, "")
		if callee != "" && strings.HasPrefix(caller, product) {
			s.reached[site(caller[strings.LastIndex(caller, "/")+1:], callee)] = true
		}
		callee = caller[strings.LastIndex(caller, ".")+1:]
		if !more {
			return
		}
	}
}

func site(function, callee string) string { return function + " calls " + callee }

// Missing returns which of these sites were not reached, sorted.
func (s *Sites) Missing(all []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return s.reached[name] })
}

// Effect is a call that changes something outside the process: a method of that
// name, called on an expression that ends like this ("" is any).
type Effect struct{ On, Method string }

// SitesIn finds the calls of these effects in the Go files of a directory, tests
// and the named files left out. They are what Sites has to have reached.
func SitesIn(dir string, effects []Effect, except ...string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || slices.Contains(except, filepath.Base(name)) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				for _, method := range calls(fn, effects) {
					out = append(out, site(functionName(f.Name.Name, fn), method))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

func calls(fn *ast.FuncDecl, effects []Effect) []string {
	var out []string
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			for _, e := range effects {
				if sel.Sel.Name == e.Method && strings.HasSuffix(types.ExprString(sel.X), e.On) {
					out = append(out, e.Method)
				}
			}
		}
		return true
	})
	return out
}

// functionName is the function as a stack shows it.
func functionName(pkg string, fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return pkg + "." + fn.Name.Name
	}
	receiver := types.ExprString(fn.Recv.List[0].Type)
	if strings.HasPrefix(receiver, "*") {
		receiver = "(" + receiver + ")"
	}
	return pkg + "." + receiver + "." + fn.Name.Name
}
