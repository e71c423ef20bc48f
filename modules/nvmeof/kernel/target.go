package kernel

import (
	"context"
	"fmt"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/turns"
)

// Target is nvmeof.Target over configfs. All methods may be called from many
// goroutines. Changes of one subsystem are made one call at a time; what the
// subsystems share (ports, hosts, devices) is changed by one call at a time, and
// never while a device is waited for. Reads wait for nobody.
type Target struct {
	fs    FS
	debug DebugFS // nil: the kernel does not show controllers
	now   func() time.Time
	ports portRange

	// subsystems gives each subsystem, and shared what they have in common, to
	// one change at a time. A call that was abandoned in the kernel keeps what it
	// has until the kernel comes back.
	subsystems turns.Turns
	shared     turns.Turns
	probes     probes
}

var _ nvmeof.Target = (*Target)(nil)

type portRange struct{ first, last uint16 }

// Option changes a new Target.
type Option func(*Target)

// WithClock sets the clock that stamps evidence; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(t *Target) { t.now = now } }

// WithPortIDs sets the IDs, first to last, of the ports that the target makes
// and removes; the default is 1 to 65535. Ports outside are used when they have
// the address that is wanted, and left alone otherwise.
func WithPortIDs(first, last uint16) Option {
	return func(t *Target) { t.ports = portRange{first, last} }
}

// WithDebugFS tells List and Inspect where the kernel shows the controllers of
// each subsystem, normally OS(DebugRoot). Kernels before 6.11, and those built
// without CONFIG_NVME_TARGET_DEBUGFS, have no such directory, and then the states
// have no ConnectedHosts. Nothing else depends on it.
func WithDebugFS(fs DebugFS) Option { return func(t *Target) { t.debug = fs } }

// New returns the target behind fs; for this host's kernel that is
// OS(DefaultRoot). It touches nothing yet.
func New(fs FS, opts ...Option) *Target {
	t := &Target{fs: fs, now: time.Now, ports: portRange{1, 65535}}
	for _, o := range opts {
		o(t)
	}
	return t
}

// change runs body as the only change of the subsystem. It returns when body
// does, or when ctx ends, whichever is first; in the second case body goes on
// only to the end of the effect it is in, and holds the subsystem that long.
func change[T any](ctx context.Context, t *Target, nqn string, body func(*session) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	mine, err := t.subsystems.Take(ctx, nqn)
	if err != nil {
		return zero, err
	}

	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	s := &session{t: t, ctx: ctx, doing: mine}
	go func() {
		value, err := body(s)
		done <- result{value, err}
		t.subsystems.Release(nqn, mine)
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	doing := mine.Step.Load() // before done is looked at: whoever is done does nothing
	select {
	case r := <-done: // finished in the same moment
		return r.value, r.err
	default:
		return zero, abandoned(doing, ctx.Err())
	}
}

// abandoned is the error of a call that left the kernel behind.
func abandoned(s *turns.Step, cause error) error {
	switch {
	case s == nil:
		return fmt.Errorf("change of the target abandoned: %w", cause)
	case s.Drain:
		return fmt.Errorf("%w: %s: %w", nvmeof.ErrDrainTimeout, s.What, cause)
	}
	return fmt.Errorf("%w: %s abandoned: %w", nvmeof.ErrBusy, s.What, cause)
}
