package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/pages"
)

// TestWhatPagesTellToTypeExists looks at every command of every block of language sh
// below docs.
func TestWhatPagesTellToTypeExists(t *testing.T) {
	c := newChecker(t)
	all, err := pages.All(c.root, "docs")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	for _, p := range all {
		for _, b := range p.Blocks {
			if b.Language != "sh" {
				continue
			}
			commands, err := b.Commands()
			if err != nil {
				t.Error(err)
			}
			commands = append(commands, inner(t, b)...)
			for _, command := range commands {
				checked[p.File]++
				if err := c.check(t.Context(), command.Words); err != nil {
					t.Errorf("%s:%d: %v", p.File, command.Line, err)
				}
			}
		}
	}
	for _, file := range []string{"docs/tutorial/lab.md", "docs/tutorial/cluster.md"} {
		if checked[file] < 10 {
			t.Errorf("%s: only %d commands were found", file, checked[file])
		}
	}
}

// substitution is a command whose output is an argument of another.
var substitution = regexp.MustCompile(`\$\(([^()]*)\)`)

// inner are the commands inside of others.
func inner(t *testing.T, b pages.Block) []pages.Command {
	t.Helper()
	var found []pages.Command
	for i, line := range strings.Split(b.Text, "\n") {
		for _, s := range substitution.FindAllStringSubmatch(line, -1) {
			commands, err := pages.Block{File: b.File, Line: b.Line + i, Text: s[1]}.Commands()
			if err != nil {
				t.Error(err)
			}
			found = append(found, commands...)
		}
	}
	return found
}

// TestWhatDoesNotExistIsFound: the test above would notice.
func TestWhatDoesNotExistIsFound(t *testing.T) {
	c := newChecker(t)
	for line, want := range map[string]string{
		"make demo":                                               "",
		"make demos":                                              "No rule to make target",
		"lab shell storage -- ls --color":                         "",
		"lab shel storage":                                        "lab shel: no such command",
		"lab up --naked":                                          "lab up has no flag --naked",
		"kubectl distort what-if drain-node NODE":                 "",
		"kubectl distort what-if drain NODE":                      "no such command",
		"kubectl distort explain data -n demo":                    "",
		"kubectl distort explian data":                            "kubectl distort explian: no such command",
		"kubectl distort trace data --jaeger http://x":            "has no flag --jaeger",
		"kubectl get nvmedevices -o wide":                         "",
		"kubectl -n distort-system get nvmedevice":                "",
		"kubectl get nvmedrives":                                  "kubectl get nvmedrives: no such resource",
		"kubectl destroy pods":                                    "nothing here knows this command",
		"helm upgrade x charts/distort --set a.b=c":               "the chart has no such value",
		"helm upgrade x charts/other":                             "charts/other: no such file",
		"helm install x --set agent.updateStrategy.type=OnDelete": "",
		"go build -o bin/lab ./e2e/cmd/lab":                       "",
		"go build -o bin/lab ./e2e/cmd/laboratory":                "no such file in the repository",
		"curl http://x":                                           "nothing here knows this program",
	} {
		commands, err := pages.Block{Text: line}.Commands()
		if err != nil || len(commands) != 1 {
			t.Fatalf("%s: %v, %v", line, commands, err)
		}
		err = c.check(t.Context(), commands[0].Words)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", line, err, want)
		}
	}
}
