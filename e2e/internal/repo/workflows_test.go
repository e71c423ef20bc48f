package repo

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what these tests read of a workflow of GitHub.
type workflow struct {
	Permissions any            `json:"permissions"`
	Jobs        map[string]job `json:"jobs"`
}

type job struct {
	Uses        string `json:"uses"`
	Permissions any    `json:"permissions"`
	Steps       []struct {
		Uses string         `json:"uses"`
		With map[string]any `json:"with"`
	} `json:"steps"`
}

// pinned is an action at a commit: a tag can be moved by whoever owns the action.
var pinned = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}$`)

// check lists what makes a workflow run what nobody reviewed, or with rights that it
// does not need.
func (w workflow) check() []string {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	switch rights := w.Permissions.(type) {
	case map[string]any:
		for right, value := range rights {
			if value == "write" {
				say("permissions: %s: write is of one job and not of all", right)
			}
		}
	default:
		say("permissions: %v: want a list of rights for the whole workflow", rights)
	}
	for name, j := range w.Jobs {
		if all, ok := j.Permissions.(string); ok {
			say("job %s: permissions: %s: want a list of rights", name, all)
		}
		uses := []string{j.Uses}
		for _, step := range j.Steps {
			uses = append(uses, step.Uses)
			if strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false {
				say("job %s: %s: want persist-credentials: false", name, step.Uses)
			}
		}
		for _, action := range uses {
			if action != "" && !strings.HasPrefix(action, "./") && !pinned.MatchString(action) {
				say("job %s: uses: %s: want an action at a commit of 40 hexadecimal digits", name, action)
			}
		}
	}
	return problems
}

func parse(t *testing.T, source []byte) workflow {
	t.Helper()
	var w workflow
	if err := yaml.Unmarshal(source, &w); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWorkflowsRunWhatWasReviewed(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.y*ml"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range parse(t, source).check() {
			t.Errorf("%s: %s", filepath.Base(file), problem)
		}
	}
	for _, want := range []string{"ci.yaml", "release.yaml"} {
		if !slices.Contains(names, want) {
			t.Errorf("workflows are %q, %s is missing", names, want)
		}
	}
}

func TestWorkflowRules(t *testing.T) {
	const sha = "de0fac2e4500dabe0009e67214ff5f5447ce83dd"
	const rights = "permissions: {contents: read}\n"
	step := func(uses string) string { return rights + "jobs: {a: {steps: [{uses: " + uses + "}]}}\n" }
	for name, c := range map[string]struct{ source, says string }{
		"pinned":                 {step("docker/login-action@" + sha), ""},
		"an action of ours":      {step("./.github/actions/x"), ""},
		"a folder of an action":  {step("anchore/sbom-action/download-syft@" + sha), ""},
		"no rights":              {"permissions: {}\njobs: {}\n", ""},
		"a tag":                  {step("docker/login-action@v3"), "job a: uses: docker/login-action@v3"},
		"a short commit":         {step("docker/login-action@" + sha[:12]), "want an action at a commit"},
		"more than a commit":     {step("docker/login-action@" + sha + "0"), "want an action at a commit"},
		"no version":             {step("docker/login-action"), "want an action at a commit"},
		"a workflow of others":   {rights + "jobs: {a: {uses: x/y/.github/workflows/z.yaml@main}}\n", "job a: uses: x/y"},
		"without permissions":    {"jobs: {}\n", "permissions: <nil>: want a list"},
		"all permissions":        {"permissions: write-all\n", "permissions: write-all: want a list"},
		"all of a job":           {rights + "jobs: {a: {permissions: write-all}}\n", "job a: permissions: write-all"},
		"every job may write":    {"permissions: {contents: write}\n", "contents: write is of one job"},
		"credentials stay there": {step("actions/checkout@" + sha), "want persist-credentials: false"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(parse(t, []byte(c.source)).check(), "\n")
			if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("check says %q, want %q", got, c.says)
			}
		})
	}
}
