package repo

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	target   = regexp.MustCompile(`(?m)^([a-z0-9][a-z0-9 -]*):`)
	makes    = regexp.MustCompile(`\bmake ([a-z0-9][a-z0-9-]*)`)
	programs = regexp.MustCompile(`\bgo (?:run|build -o \S+|install) (\./[\w./-]+)`)
	word     = regexp.MustCompile(`[a-z0-9-]+`)
)

// TestCommandsOfDocumentsAreThere: each `make` of a document names a target, and each
// program that it builds or runs is a folder.
func TestCommandsOfDocumentsAreThere(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, m := range target.FindAllSubmatch(makefile, -1) {
		targets = append(targets, word.FindAllString(string(m[1]), -1)...)
	}
	seen := 0
	for path, p := range documents(t, root) {
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range p.code {
			for _, m := range makes.FindAllStringSubmatch(code, -1) {
				seen++
				if !slices.Contains(targets, m[1]) {
					t.Errorf("%s: make %s: the Makefile has no such target", name, m[1])
				}
			}
			for _, m := range programs.FindAllStringSubmatch(code, -1) {
				seen++
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(m[1]))); err != nil {
					t.Errorf("%s: %s: %v", name, m[0], err)
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d commands were found, want at least 50: is the pattern right?", seen)
	}
}
