package lab

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/layout"
)

func TestPanicIsSeenOnTheConsoleAndKept(t *testing.T) {
	l := New(t.TempDir(), io.Discard)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(l.Console(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(l.Console(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(l.LogDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	alive, dead := layout.Nodes()[0].Name, layout.Nodes()[1].Name
	write(alive, "LAB 16.25 guest is set up\n")
	if err := l.Panicked(); err != nil {
		t.Fatalf("nothing has panicked: %v", err)
	}
	write(dead, "[  628.906239] Kernel panic - not syncing: Fatal exception in interrupt\n")
	err := l.Panicked()
	if !errors.Is(err, ErrPanicked) || !strings.Contains(err.Error(), dead) || strings.Contains(err.Error(), alive) {
		t.Errorf("err = %v, want that %s has panicked", err, dead)
	}
	if kept, err := os.ReadFile(filepath.Join(l.LogDir(), dead+"-panic.log")); err != nil || !strings.Contains(string(kept), "628.906239") {
		t.Errorf("kept console: %q, %v", kept, err)
	}
}
