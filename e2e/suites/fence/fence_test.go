package fence

import (
	"bytes"
	"context"
	"encoding/json"
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
	"github.com/distort-io/distort/e2e/internal/suite"
)

const (
	namespace = "e2e-fence"
	// envRounds is how often each takeover is repeated.
	envRounds     = "DISTORT_FENCE_ROUNDS"
	defaultRounds = 4
	// watched is how long the new host looks out for writes of the old one.
	watched = 4 * time.Second
)

// TestOldHostNeverWritesAfterTheNew repeats takeovers with random timing. In every
// other round the old host is cut off from the network before it is detached, and
// comes back while the new host writes.
func TestOldHostNeverWritesAfterTheNew(t *testing.T) {
	l := suite.Open(t)
	f := suite.Flow(t, l, namespace)
	ctx := t.Context()
	guests := map[string]*guestexec.Client{}
	for _, node := range layout.Nodes() {
		guests[node.Name] = suite.Guest(t, l, node.Name)
	}
	install(t, guests)
	drives := layout.Drives()[:1]
	if err := f.ClaimDrives(ctx, drives); err != nil {
		t.Fatal(err)
	}
	for _, transport := range []string{"tcp", "rdma"} {
		t.Run(transport, func(t *testing.T) {
			s := setUp(t, f, guests, transport)
			began := time.Now()
			for round := range rounds(t) {
				if s.takeover(t.Context(), round, round%2 == 1); t.Failed() {
					t.Fatalf("in round %d", round+1)
				}
			}
			t.Logf("%d takeovers over %s in %s", rounds(t), transport, time.Since(began).Round(time.Second))
			s.tearDown(t.Context())
		})
	}
	if err := f.ReleaseDrives(ctx, drives); err != nil {
		t.Fatal(err)
	}
	if _, err := f.NothingLeft(ctx); err != nil {
		t.Fatal(err)
	}
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

// takeover is one round: the old host writes without pause, is detached without
// being asked, and the new host writes.
func (s *stage) takeover(ctx context.Context, round int, cutOff bool) {
	s.t.Helper()
	nodes := layout.Consumers()
	older, newer := nodes[round/2%2], nodes[1-round/2%2]
	oldName, newName := "old-"+strconv.Itoa(round), "new-"+strconv.Itoa(round)

	s.attach(ctx, older)
	device, err := s.connect(ctx, older)
	s.must(err)
	stop := s.background(ctx, older, "write", device, oldName)
	defer stop()
	s.must(flow.Eventually(ctx, older+" writes", time.Minute, func(ctx context.Context) (string, error) {
		return missing(s.records(ctx), oldName), nil
	}))
	pause(ctx, time.Second)
	heal := func() {}
	if cutOff {
		heal = s.cut(older)
		defer heal()
		pause(ctx, 2*time.Second)
	}

	began := time.Now()
	s.detach(ctx, older)
	detached := time.Since(began)
	beginning := s.records(ctx)
	if m := missing(beginning, oldName); m != "" {
		s.t.Fatal(m)
	}
	s.attach(ctx, newer)
	fresh, err := s.connect(ctx, newer)
	s.must(err)

	result := make(chan string, 1)
	go func() { result <- s.own(ctx, newer, fresh, newName, beginning) }()
	pause(ctx, time.Second)
	heal()
	if again, err := s.connect(ctx, older); err == nil {
		s.t.Errorf("%s was detached, and connects to %s", older, again)
	}
	if problem := <-result; problem != "" {
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

// own writes as the new host and looks out for others; it answers what it found.
func (s *stage) own(ctx context.Context, node, device, name string, beginning []fenceio.Record) string {
	raw, err := json.Marshal(beginning)
	if err != nil {
		return err.Error()
	}
	out, err := s.guests[node].Pipe(ctx, bytes.NewReader(raw), program, "own", device, name, watched.String())
	if err != nil {
		return err.Error()
	}
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n < fenceio.Slots {
		return "wrote " + strings.TrimSpace(out) + " records, which is less than one for each slot"
	}
	return ""
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
func pause(ctx context.Context, most time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(rand.N(most)):
	}
}
