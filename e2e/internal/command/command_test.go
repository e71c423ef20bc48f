package command

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestFailureCarriesExitCodeAndStandardError(t *testing.T) {
	err := Runner{}.Run(t.Context(), "sh", "-c", "echo broken >&2; exit 3")
	var failure *Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want an Error", err)
	}
	if failure.ExitCode != 3 || failure.Stderr != "broken" {
		t.Errorf("exit code %d, stderr %q; want 3, \"broken\"", failure.ExitCode, failure.Stderr)
	}
}

func TestStandardErrorIsBounded(t *testing.T) {
	err := Runner{}.Run(t.Context(), "sh", "-c", "yes x | head -c 100000 >&2; echo end >&2; exit 1")
	var failure *Error
	if !errors.As(err, &failure) {
		t.Fatalf("got %v, want an Error", err)
	}
	if len(failure.Stderr) > tailBytes || !strings.HasSuffix(failure.Stderr, "end") {
		t.Errorf("%d bytes that end in %q", len(failure.Stderr), failure.Stderr[max(0, len(failure.Stderr)-10):])
	}
}

func TestOutputIsReturnedAndLogged(t *testing.T) {
	var log bytes.Buffer
	out, err := Runner{Log: &log}.With("WORD=hello").In("/").Output(t.Context(), "sh", "-c", "echo $WORD; pwd")
	if err != nil {
		t.Fatal(err)
	}
	if out != "hello\n/\n" {
		t.Errorf("got %q", out)
	}
	if !strings.Contains(log.String(), "+ sh -c") || !strings.Contains(log.String(), "hello") {
		t.Errorf("log lacks command or output: %q", log.String())
	}
}

func TestCancelEndsTheProgram(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := Runner{}.Run(ctx, "sleep", "60")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	if took := time.Since(begin); took > killDelay+5*time.Second {
		t.Errorf("took %s", took)
	}
}
