package fence

import (
	"context"
	"fmt"
	"testing"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/layout"
)

// TestTheOtherHostOfASharedVolumeWritesOn fences one of two writers. A fence of the
// kernel's target ends the controllers of both; the other one comes back by itself.
func TestTheOtherHostOfASharedVolumeWritesOn(t *testing.T) {
	_, f, guests, done := open(t)
	defer done()
	ctx := t.Context()
	s := setUp(t, f, guests, volume{name: "fence-shared", transport: "tcp", shared: true})
	fenced, other := layout.Consumers()[0], layout.Consumers()[1]
	stopFenced := s.writeFrom(ctx, fenced, "fenced")
	defer stopFenced()
	stopOther := s.writeFrom(ctx, other, "other")
	defer stopOther()
	held := s.held(ctx, fenced)

	s.detach(ctx, fenced)
	s.wantEvidence(ctx, held)
	s.waitOnly(ctx, "other")
	s.waitStates(ctx, other, "live")
	s.waitRefused(ctx, fenced)
	wait(ctx, watched)
	for slot, r := range s.records(ctx) {
		if r.Writer() != "other" {
			t.Errorf("slot %d has %q in the end", slot, r)
		}
	}
	stopFenced()
	stopOther()
	for _, node := range []string{fenced, other} {
		s.disconnect(ctx, node)
	}
	s.detach(ctx, other)
	s.tearDown(ctx)
}

// waitOnly waits until each slot was written last by that writer.
func (s *stage) waitOnly(ctx context.Context, writer string) {
	s.t.Helper()
	s.must(flow.Eventually(ctx, writer+" writes on, and nobody else", refuseTimeout, func(ctx context.Context) (string, error) {
		for slot, r := range s.records(ctx) {
			if r.Writer() != writer {
				return fmt.Sprintf("slot %d has %q", slot, r), nil
			}
		}
		return "", nil
	}))
}
