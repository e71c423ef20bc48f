package devicelock_test

import (
	"context"
	"errors"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/devicelock"
)

func TestLocksAreHeldUntilTheChangeHasReallyEnded(t *testing.T) {
	l := devicelock.New("drive")
	ctx, cancel := context.WithCancel(t.Context())
	release, started := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- l.Do(ctx, "A", func(context.Context) error { close(started); <-release; return nil })
	}()
	<-started
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("Do of a change that hangs = %v, want the end of its context", err)
	}
	// The change still runs: nobody else may have the drive.
	short, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Do(short, "A", func(context.Context) error { t.Error("two changes at once"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("Do on the locked drive = %v", err)
	}
	if err := l.Do(t.Context(), "B", func(context.Context) error { return nil }); err != nil {
		t.Errorf("Do on another drive = %v", err)
	}
	close(release)
	if err := l.Do(t.Context(), "A", func(context.Context) error { return nil }); err != nil {
		t.Errorf("Do after the change has ended = %v", err)
	}
}

func TestDoReturnsWhatTheChangeSays(t *testing.T) {
	want := errors.New("no")
	if err := devicelock.New("drive").Do(t.Context(), "A", func(context.Context) error { return want }); !errors.Is(err, want) {
		t.Errorf("Do = %v, want %v", err, want)
	}
}
