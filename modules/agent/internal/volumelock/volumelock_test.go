package volumelock

import (
	"context"
	"errors"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestLockAdmitsOneHolderOfAVolumeAtATime(t *testing.T) {
	var (
		locks  Locks
		wg     sync.WaitGroup
		inside = map[types.UID]int{}
		counts = map[types.UID]int{}
		mu     sync.Mutex
	)
	const rounds = 200
	for i := range rounds {
		volume := types.UID([]string{"a", "b"}[i%2])
		wg.Go(func() {
			unlock, err := locks.Lock(t.Context(), volume)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			mu.Lock()
			inside[volume]++
			if inside[volume] != 1 {
				t.Errorf("%d holders of volume %s", inside[volume], volume)
			}
			mu.Unlock()
			mu.Lock()
			inside[volume]--
			counts[volume]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if counts["a"] != rounds/2 || counts["b"] != rounds/2 {
		t.Errorf("holders so far = %v, want %d each", counts, rounds/2)
	}
	if len(locks.held) != 0 {
		t.Errorf("%d locks remain although nobody uses them", len(locks.held))
	}
}

func TestLockGivesUpWhenItsContextEnds(t *testing.T) {
	var locks Locks
	unlock, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.Lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want context.Canceled", err)
	}
	other, err := locks.Lock(t.Context(), "b")
	if err != nil {
		t.Fatalf("another volume waits too: %v", err)
	}
	other()
	unlock()
	again, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	again()
	if len(locks.held) != 0 {
		t.Errorf("%d locks remain although nobody uses them", len(locks.held))
	}
}
