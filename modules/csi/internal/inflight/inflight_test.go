package inflight_test

import (
	"testing"

	"github.com/distort-io/distort/modules/csi/internal/inflight"
)

func TestOneHolderPerKeyUntilReleased(t *testing.T) {
	var s inflight.Set
	release, ok := s.TryAcquire("a")
	if !ok {
		t.Fatal("free key refused")
	}
	if _, ok := s.TryAcquire("a"); ok {
		t.Fatal("taken key granted")
	}
	if other, ok := s.TryAcquire("b"); !ok {
		t.Fatal("another volume was blocked")
	} else {
		other()
	}
	release()
	if again, ok := s.TryAcquire("a"); !ok {
		t.Fatal("released key refused")
	} else {
		again()
	}
}
