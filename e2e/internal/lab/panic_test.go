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
	const end = "[  628.906239] Kernel panic - not syncing: Fatal exception in interrupt\n"
	for text, want := range map[string]struct{ is, not error }{
		"[  628.897156] BUG: kernel NULL pointer dereference, address: 0\n" + end: {ErrPanicked, ErrDoubleFault},
		"[  628.897156] traps: PANIC: double fault, error_code: 0x0\n" + end:      {ErrDoubleFault, ErrPanicked},
	} {
		write(dead, text)
		err := l.Panicked()
		if !errors.Is(err, want.is) || errors.Is(err, want.not) || !strings.Contains(err.Error(), dead) || strings.Contains(err.Error(), alive) {
			t.Errorf("err = %v, want of %s that %v", err, dead, want.is)
		}
	}
	if kept, err := os.ReadFile(filepath.Join(l.LogDir(), dead+"-panic.log")); err != nil || !strings.Contains(string(kept), "628.906239") {
		t.Errorf("kept console: %q, %v", kept, err)
	}
}
