package kernel

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
)

// DefaultSettle is how long a fence waits after it has ended the controllers,
// before it enables the namespaces again: the kernel tears queues down in a
// work queue, and what was already in a socket's buffer shall meet a disabled
// namespace. It is a margin and no proof; the drain is the proof.
const DefaultSettle = 50 * time.Millisecond

// Target is nvmeof.Target over configfs. All methods may be called from many
// goroutines. Changes are made one call at a time, since the ports are shared
// and the kernel serialises them anyhow; reads wait for nobody.
type Target struct {
	fs     FS
	debug  DebugFS // nil: the kernel does not show controllers
	now    func() time.Time
	settle time.Duration
	ports  portRange

	// turn holds one token. Whoever has it may change the target. A call that
	// was abandoned in the kernel keeps it until the kernel comes back.
	turn chan struct{}
	// step is what the holder of the token is doing, for messages.
	step atomic.Pointer[step]
}

var _ nvmeof.Target = (*Target)(nil)

type step struct {
	what  string
	drain bool
}

type portRange struct{ first, last uint16 }

// Option changes a new Target.
type Option func(*Target)

// WithClock sets the clock that stamps evidence; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(t *Target) { t.now = now } }

// WithSettle sets how long a fence waits before it enables namespaces again;
// the default is DefaultSettle.
func WithSettle(d time.Duration) Option { return func(t *Target) { t.settle = d } }

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
	t := &Target{fs: fs, now: time.Now, settle: DefaultSettle, ports: portRange{1, 65535}, turn: make(chan struct{}, 1)}
	for _, o := range opts {
		o(t)
	}
	t.turn <- struct{}{}
	return t
}

// change runs body as the only change of the target. It returns when body
// does, or when ctx ends, whichever is first; in the second case body goes on
// only to the end of the effect it is in, and holds the target that long.
func change[T any](ctx context.Context, t *Target, body func(*session) (T, error)) (T, error) {
	var zero T
	if err := ctx.Err(); err != nil {
		return zero, err
	}
	select {
	case <-t.turn:
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %s is not finished: %w", nvmeof.ErrBusy, t.doing(), ctx.Err())
	}

	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	s := &session{t: t, ctx: ctx}
	go func() {
		value, err := body(s)
		t.step.Store(nil)
		t.turn <- struct{}{}
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	select {
	case r := <-done: // finished in the same moment
		return r.value, r.err
	default:
		return zero, t.abandoned(ctx.Err())
	}
}

func (t *Target) doing() string {
	if s := t.step.Load(); s != nil {
		return s.what
	}
	return "an earlier change"
}

// abandoned is the error of a call that left the kernel behind.
func (t *Target) abandoned(cause error) error {
	s := t.step.Load()
	switch {
	case s == nil:
		return fmt.Errorf("change of the target abandoned: %w", cause)
	case s.drain:
		return fmt.Errorf("%w: %s: %w", nvmeof.ErrDrainTimeout, s.what, cause)
	}
	return fmt.Errorf("%w: %s abandoned: %w", nvmeof.ErrBusy, s.what, cause)
}
