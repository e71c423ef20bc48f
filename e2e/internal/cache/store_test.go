package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestEntryIsBuiltOnceAndFoundAfterwards(t *testing.T) {
	store := NewStore(t.TempDir())
	var builds atomic.Int32
	build := func(_ context.Context, dir string) error {
		builds.Add(1)
		return os.WriteFile(filepath.Join(dir, "out"), []byte("x"), 0o644)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			path, _, err := store.Ensure(t.Context(), "step", "key", build)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(path, "out")); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := builds.Load(); got != 1 {
		t.Errorf("%d builds of one entry, want 1", got)
	}
	if _, hit, err := store.Ensure(t.Context(), "step", "key", build); !hit || err != nil {
		t.Errorf("later use: hit %t, error %v; want a hit", hit, err)
	}
}

func TestFailedBuildLeavesNoEntry(t *testing.T) {
	store := NewStore(t.TempDir())
	failure := errors.New("no")
	_, _, err := store.Ensure(t.Context(), "step", "key", func(_ context.Context, dir string) error {
		write(t, filepath.Join(dir, "half"), "x")
		return failure
	})
	if !errors.Is(err, failure) {
		t.Fatalf("got %v, want the build's error", err)
	}
	if store.Has("step", "key") {
		t.Error("the entry of a failed build exists")
	}
}

func TestRemainsOfAKilledBuildAreRemovedByTheNext(t *testing.T) {
	root := t.TempDir()
	remains := filepath.Join(root, "step", tempPrefix+"123", "half")
	write(t, remains, "x")
	_, hit, err := NewStore(root).Ensure(t.Context(), "step", "key", func(context.Context, string) error { return nil })
	if err != nil || hit {
		t.Fatalf("hit %t, error %v; want a build", hit, err)
	}
	if _, err := os.Stat(remains); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("remains are still there (%v)", err)
	}
}

// A build that was killed in its chroot has parts of the host mounted there. Needs
// root, as the lab does.
func TestRemovalOfAKilledBuildStopsAtWhatIsMountedInIt(t *testing.T) {
	host, root := t.TempDir(), t.TempDir()
	kept := filepath.Join(host, "kept")
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mounted := filepath.Join(root, "step", tempPrefix+"1", "tree", "dev")
	if err := os.MkdirAll(mounted, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(host, mounted, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	if _, _, err := NewStore(root).Ensure(t.Context(), "step", "key", func(context.Context, string) error { return nil }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the host's file: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "step", tempPrefix+"1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the build left is still there: %v", err)
	}
}

func TestWaitForAnotherBuildEndsWithTheContext(t *testing.T) {
	store := NewStore(t.TempDir())
	inside, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, _, err := store.Ensure(t.Context(), "step", "one", func(context.Context, string) error {
			close(inside)
			<-release
			return nil
		})
		done <- err
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := store.Ensure(ctx, "step", "two", func(context.Context, string) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPruneKeepsTheMostRecentlyUsed(t *testing.T) {
	store := NewStore(t.TempDir())
	for i, key := range []string{"old", "older", "used"} {
		path, _, err := store.Ensure(t.Context(), "step", key, func(context.Context, string) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-time.Duration(i+1) * time.Hour)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := store.Ensure(t.Context(), "step", "used", nil); err != nil {
		t.Fatal(err)
	}
	if err := store.Prune("step", 2); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{"used": true, "old": true, "older": false} {
		if got := store.Has("step", key); got != want {
			t.Errorf("entry %q: present %t, want %t", key, got, want)
		}
	}
}
