package node_test

import "testing"

// PU8: wherever a stage dies, the next stage finishes it and an unstage undoes
// it.
func TestStageKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	eachKill(t, nothing, func(h *host) error { return h.stage() }, func(t *testing.T, h *host) {
		h.must(h.stage())
		h.wantStaged()
		if n := h.fs.Medium(nqnOf(uid)).Formats; n > 2 {
			t.Errorf("%d runs of mkfs", n)
		}
		h.must(h.unstage())
		h.wantNothing()
	})
}

func TestStageKilledAnywhereIsUndoneByUnstage(t *testing.T) {
	eachKill(t, nothing, func(h *host) error { return h.stage() }, func(t *testing.T, h *host) {
		for range 2 {
			h.must(h.unstage())
			h.wantNothing()
		}
		h.must(h.stage())
		h.wantStaged()
	})
}

// A second stage never formats again, wherever it dies.
func TestRestageKilledAnywhereKeepsTheData(t *testing.T) {
	prepare := func(h *host) error {
		h.must(h.stage())
		return h.unstage()
	}
	eachKill(t, prepare, func(h *host) error { return h.stage() }, func(t *testing.T, h *host) {
		h.must(h.stage())
		h.wantStaged()
		if n := h.fs.Medium(nqnOf(uid)).Formats; n != 1 {
			t.Errorf("%d runs of mkfs, want the first only", n)
		}
	})
}

func TestUnstageKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	eachKill(t, func(h *host) error { return h.stage() }, func(h *host) error { return h.unstage() }, func(t *testing.T, h *host) {
		h.must(h.unstage())
		h.wantNothing()
	})
}

func TestPublishAndUnpublishKilledAnywhere(t *testing.T) {
	staged := func(h *host) error { return h.stage() }
	eachKill(t, staged, func(h *host) error { return h.publish() }, func(t *testing.T, h *host) {
		h.must(h.publish())
		if n := len(h.fs.Mounts()); n != 2 {
			t.Errorf("%d mounts, want staging and target", n)
		}
		h.must(h.unpublish())
		h.must(h.unstage())
		h.wantNothing()
	})
	published := func(h *host) error {
		h.must(h.stage())
		return h.publish()
	}
	eachKill(t, published, func(h *host) error { return h.unpublish() }, func(t *testing.T, h *host) {
		h.must(h.unpublish())
		h.wantStaged()
	})
}
