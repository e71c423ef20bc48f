package suite

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/prepare"
)

func TestSuitesAreChosenByName(t *testing.T) {
	module := t.TempDir()
	for _, name := range []string{"b", "a"} {
		Must(t, os.MkdirAll(filepath.Join(module, suitesDir, name), 0o755))
	}
	for _, c := range []struct{ wanted, want []string }{
		{nil, []string{"a", "b"}},
		{[]string{"b"}, []string{"b"}},
		{[]string{"b", "a"}, []string{"b", "a"}},
	} {
		got, err := choose(module, c.wanted)
		Must(t, err)
		if !slices.Equal(got, c.want) {
			t.Errorf("choose(%v) = %v, want %v", c.wanted, got, c.want)
		}
	}
	if _, err := choose(module, []string{"c"}); err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("an unknown suite: %v", err)
	}
}

// Every suite that needs steps exists, and so do the steps.
func TestNeedsOfSuites(t *testing.T) {
	for name := range steps {
		if _, err := os.Stat(filepath.Join("..", "..", suitesDir, name)); err != nil {
			t.Error(err)
		}
		if _, err := prepare.Plan(prepare.Catalogue(), needs([]string{name})); err != nil {
			t.Errorf("suite %s: %v", name, err)
		}
	}
	if got := needs([]string{"mainflow"}); len(got) > 0 {
		t.Errorf("a suite without needs has %v", got)
	}
	if got := needs([]string{"pools", "pools"}); len(got) != len(steps["pools"]) {
		t.Errorf("needs of a suite that is named twice are %v", got)
	}
}
