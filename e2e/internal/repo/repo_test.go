package repo

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCheckoutIsFoundFromBelow(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "modules", "csi")
	for _, dir := range []string{below, filepath.Join(root, "e2e")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := findAbove(below); err == nil {
		t.Fatalf("found %s where there is no checkout", got)
	}
	for _, name := range []string{"go.work", "e2e/go.mod"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findAbove(below)
	if err != nil || got != root {
		t.Errorf("got %q, %v; want %q", got, err, root)
	}
}
