package fence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distort-io/distort/e2e/internal/fenceio"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/layout"
)

const (
	namespace = "e2e-fence"
	// envRounds is how often each kind of takeover is repeated over each transport.
	envRounds     = "DISTORT_FENCE_ROUNDS"
	defaultRounds = 2
	// watched is how long the new host looks out for writes of the old one after
	// that one was refused.
	watched = 4 * time.Second
)

// TestOldHostNeverWritesAfterTheNew repeats takeovers with random timing, of a host
// that is connected and of one that is cut off from the network and comes back
// while the new host writes. The transports take turns beside each other: each cut
// is of one of them.
func TestOldHostNeverWritesAfterTheNew(t *testing.T) {
	_, f, guests, done := open(t)
	defer done()
	t.Run("over", func(t *testing.T) {
		for _, transport := range []string{"tcp", "rdma"} {
			t.Run(transport, func(t *testing.T) {
				t.Parallel()
				takeOver(t, f, guests, transport)
			})
		}
	})
}

// takeOver repeats takeovers of a volume over one transport.
func takeOver(t *testing.T, f *flow.Flow, guests map[string]*guestexec.Client, transport string) {
	s := setUp(t, f, guests, volume{name: "fence-" + transport, transport: transport})
	began := time.Now()
	for round := range rounds(t) {
		for _, cutOff := range []bool{false, true} {
			if s.takeover(t.Context(), round, cutOff); t.Failed() {
				t.Fatalf("in round %d, cut off %t", round+1, cutOff)
			}
		}
	}
	t.Logf("%d takeovers over %s in %s", 2*rounds(t), transport, time.Since(began).Round(time.Second))
	s.tearDown(t.Context())
}

func rounds(t *testing.T) int {
	text := os.Getenv(envRounds)
	if text == "" {
		return defaultRounds
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: must be a number of rounds from 1", envRounds, text)
	}
	return n
}

// takeover is one round: the old host writes all the time, is detached without
// being asked, and the new host writes.
func (s *stage) takeover(ctx context.Context, round int, cutOff bool) {
	s.t.Helper()
	nodes := layout.Consumers()
	older, newer := nodes[round%2], nodes[1-round%2]
	name := fmt.Sprintf("%d-cut-%t", round, cutOff)
	oldName, newName := "old-"+name, "new-"+name

	stop := s.writeFrom(ctx, older, oldName)
	defer stop()
	held := s.held(ctx, older)
	pause(ctx, time.Second)
	heal := func() {}
	if cutOff {
		heal = s.cut(older)
		defer heal()
		// The target has the old host's controller still, or has given it up.
		if round%2 == 1 {
			s.waitStates(ctx, older, "connecting")
		}
		pause(ctx, 2*time.Second)
	}

	began := time.Now()
	s.detach(ctx, older)
	detached := time.Since(began)
	s.wantEvidence(ctx, held)
	beginning := s.records(ctx)
	if m := missing(beginning, oldName); m != "" {
		s.t.Fatal(m)
	}
	s.attach(ctx, newer)
	fresh, err := s.connect(ctx, newer)
	s.must(err)

	finish := s.own(ctx, newer, fresh, newName, beginning)
	pause(ctx, time.Second)
	if cutOff {
		s.waitStates(ctx, older, "connecting")
	}
	heal()
	s.waitRefused(ctx, older)
	wait(ctx, watched)
	if problem := finish(); problem != "" {
		s.t.Errorf("%s: %s", newer, problem)
	}
	for slot, r := range s.records(ctx) {
		if w := r.Writer(); w != newName && r != beginning[slot] {
			s.t.Errorf("slot %d has %q in the end", slot, r)
		}
	}
	s.t.Logf("round %d, cut off %t: %s detached in %s, %s took over", round+1, cutOff, older, detached.Round(time.Millisecond), newer)

	stop()
	s.disconnect(ctx, older)
	s.disconnect(ctx, newer)
	s.detach(ctx, newer)
}

// writeFrom attaches and connects a host and lets it write until stop is called.
func (s *stage) writeFrom(ctx context.Context, node, name string) (stop func()) {
	s.t.Helper()
	s.attach(ctx, node)
	_, err := s.connect(ctx, node)
	s.must(err)
	stop = s.background(ctx, node, "write", s.bound.Partition.Status.NQN, name)
	s.must(flow.Eventually(ctx, node+" writes", time.Minute, func(ctx context.Context) (string, error) {
		return missing(s.records(ctx), name), nil
	}))
	return stop
}

// own writes as the new host and looks out for others until finish is called, which
// answers what it found.
func (s *stage) own(ctx context.Context, node, device, name string, beginning []fenceio.Record) (finish func() string) {
	s.t.Helper()
	raw, err := json.Marshal(beginning)
	s.must(err)
	in, input := io.Pipe()
	result := make(chan string, 1)
	go func() {
		out, err := s.guests[node].Pipe(ctx, io.MultiReader(bytes.NewReader(raw), in), program, "own", device, name, ownLimit.String())
		if err != nil {
			result <- err.Error()
			return
		}
		if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n < fenceio.Slots {
			result <- "wrote " + strings.TrimSpace(out) + " records, which is less than one for each slot"
			return
		}
		result <- ""
	}()
	return func() string {
		input.Close()
		return <-result
	}
}

// missing says that a writer has not written, or "".
func missing(records []fenceio.Record, writer string) string {
	for _, r := range records {
		if r.Writer() == writer {
			return ""
		}
	}
	return writer + " has not written"
}

// pause waits for a random time.
func pause(ctx context.Context, most time.Duration) { wait(ctx, rand.N(most)) }

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
