package pages

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// read makes a document of a text.
func read(t *testing.T, text string) Page {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := All(root, ".")
	if err != nil || len(all) != 1 {
		t.Fatalf("%d pages, %v", len(all), err)
	}
	return all[0]
}

func TestCommandsOfABlock(t *testing.T) {
	p := read(t, "# A `b`\n\ntext\n\n```sh\n"+
		"KEEP=1 make demo   # comment\n"+
		"a 'b c' \"d | e\" \\\n  f#g | h && i > file; j\n"+
		"kubectl apply -f - <<END\nkind: X  # not a command | at all\nEND\nk\n```\n")
	if !reflect.DeepEqual(p.Headings, []string{"A `b`"}) {
		t.Errorf("headings %q", p.Headings)
	}
	got, err := p.Blocks[0].Commands()
	if err != nil {
		t.Fatal(err)
	}
	want := []Command{
		{Line: 6, Words: []string{"make", "demo"}},
		{Line: 7, Words: []string{"a", "b c", "d | e", "f#g"}},
		{Line: 7, Words: []string{"h"}}, {Line: 7, Words: []string{"i"}}, {Line: 7, Words: []string{"j"}},
		{Line: 9, Words: []string{"kubectl", "apply", "-f", "-"}, Input: "kind: X  # not a command | at all\n"},
		{Line: 12, Words: []string{"k"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestBlocksThatAreNoShell(t *testing.T) {
	for text, want := range map[string]string{"a 'b": "a.md:1: a quotation", "a <<END\nb": "a.md:1: no END"} {
		_, err := Block{File: "a.md", Line: 1, Text: text}.Commands()
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func TestManifests(t *testing.T) {
	p := read(t, "```yaml\napiVersion: v1\nkind: A\n---\napiVersion: v1\nkind: B\n```\n\n```yaml\nimages: {}\n```\n\n"+
		"```\nkubectl apply -f - <<END\napiVersion: v1\nkind: C\nEND\n```\n\n```go\napiVersion: v1\nkind: D\n```\n")
	found, err := p.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, m := range found {
		kinds = append(kinds, m.Position+" "+m.Object.GetKind())
	}
	if want := []string{"a.md:2 A", "a.md:2 B", "a.md:14 C"}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	if _, err := read(t, "```yaml\na: 1\na: 2\n```\n").Manifests(); err == nil || !strings.Contains(err.Error(), "a.md:2: ") {
		t.Errorf("a key twice: error %v", err)
	}
}
