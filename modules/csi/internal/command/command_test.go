package command_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/csi/internal/command"
)

func TestRunReturnsOutputAndTypedExit(t *testing.T) {
	out, err := command.Exec{}.Run(t.Context(), "echo", "--", "a b")
	if err != nil || string(out) != "-- a b\n" {
		t.Errorf("echo: %q, %v", out, err)
	}
	_, err = command.Exec{}.Run(t.Context(), "ls", "--", "/nonexistent")
	if code, ok := command.ExitCode(err); !ok || code != 2 {
		t.Errorf("ls: code %d, %t (%v), want 2", code, ok, err)
	}
	_, err = command.Exec{}.Run(t.Context(), "no-such-program")
	if _, ok := command.ExitCode(err); err == nil || ok {
		t.Errorf("missing program: %v, want an error without exit code", err)
	}
}

func TestRunIsKilledAtTheDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := command.Exec{}.Run(ctx, "sleep", "60")
	if _, exited := command.ExitCode(err); !errors.Is(err, context.DeadlineExceeded) || exited {
		t.Fatalf("err = %v, want the deadline", err)
	}
}

// EX4
func TestRequireNamesWhatIsMissing(t *testing.T) {
	if err := command.Require("ls", "sh"); err != nil {
		t.Error(err)
	}
	err := command.Require("ls", "no-such-program-1", "no-such-program-2")
	for _, name := range []string{"no-such-program-1", "no-such-program-2"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("err = %v does not name %s", err, name)
		}
	}
}
