package detach_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/distort-io/distort/modules/csi/internal/detach"
)

// A hung call keeps its slot; who waits for one keeps his deadline; who joins a
// call needs none afterwards.
func TestDoWithinBoundsCallsInTheKernel(t *testing.T) {
	var g detach.Group
	slots := semaphore.NewWeighted(2)
	release, running := make(chan struct{}), make(chan struct{}, 8)
	hang := func() error { running <- struct{}{}; <-release; return nil }
	soon := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for range 2 { // the second joins the first, and gives its slot back
		if err := g.DoWithin(soon(), slots, "a", hang); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("hung call answered %v, want the deadline", err)
		}
	}
	g.StartWithin(slots, "b", hang)
	for range 2 {
		<-running
	}
	if err := g.DoWithin(soon(), slots, "c", hang); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third call answered %v, want the deadline", err)
	}
	g.StartWithin(slots, "d", hang)
	if len(running) != 0 || len(g.Running(func(string) bool { return true })) != 2 {
		t.Error("more calls than slots")
	}
	close(release)
	if err := slots.Acquire(t.Context(), 2); err != nil {
		t.Errorf("slots do not come back: %v", err)
	}
}

func TestDoAbandonsAHungCallAndDoesNotRepeatIt(t *testing.T) {
	var g detach.Group
	release := make(chan struct{})
	started := make(chan struct{}, 2)
	hang := func() error { started <- struct{}{}; <-release; return errors.New("late") }

	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- g.Do(ctx, "k", hang) }()
	<-started
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatalf("abandoned call answered %v, want context.Canceled", err)
	}
	if got := g.Running(func(k string) bool { return k == "k" }); len(got) != 1 {
		t.Fatalf("running calls = %q, want the abandoned one", got)
	}
	joined, cancelJoined := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancelJoined()
	if err := g.Do(joined, "k", hang); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("joined call answered %v, want its own deadline", err)
	}
	if len(started) != 0 {
		t.Fatal("the call was made a second time while the first was in flight")
	}
	// Another key is not behind the hung one.
	if err := g.Do(t.Context(), "other", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	close(release)
}

func TestDoDoesNotBeginAfterTheDeadline(t *testing.T) {
	var g detach.Group
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := g.Do(ctx, "k", func() error { t.Error("ran"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
}

func TestValueHandsAnAbandonedValueToDiscard(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release, started, discarded := make(chan struct{}), make(chan struct{}), make(chan int, 1)
	failed := make(chan error)
	go func() {
		_, err := detach.Value(ctx, "open", func() (int, error) { close(started); <-release; return 7, nil },
			func(v int) { discarded <- v })
		failed <- err
	}()
	<-started
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	close(release)
	if v := <-discarded; v != 7 {
		t.Fatalf("discarded %d, want 7", v)
	}
}
