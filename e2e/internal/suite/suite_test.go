package suite

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
