package spdk

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/internal/together"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Target is nvmeof.Target over one nvmf_tgt. All methods may be called from many
// goroutines. Changes of one subsystem are made one call at a time.
type Target struct {
	client *rpc.Client
	now    func() time.Time
}

var _ nvmeof.Target = (*Target)(nil)

// Option changes a new Target.
type Option func(*Target)

// WithClock sets the clock that stamps evidence; the default is time.Now.
func WithClock(now func() time.Time) Option { return func(t *Target) { t.now = now } }

// New returns the target behind the client. It calls nothing yet.
func New(client *rpc.Client, opts ...Option) *Target {
	t := &Target{client: client, now: time.Now}
	for _, o := range opts {
		o(t)
	}
	return t
}

const bdevDir = "/bdev/"

// DevicePath returns the path by which a bdev is named in an nvmeof.Namespace.
// The name is the bdev's own, not an alias: for a logical volume its UUID.
func DevicePath(bdev string) string { return bdevDir + bdev }

// BdevOf is the inverse of DevicePath. Another path names no bdev.
func BdevOf(path string) (string, bool) { return strings.CutPrefix(path, bdevDir) }

// Fresh tells whether SPDK was started since anything listened there: it has no
// transport, which it never loses while it runs. Whoever has subsystems that hosts
// are trying to reach then makes all of them with EnsureAll.
func (t *Target) Fresh(ctx context.Context) (bool, error) {
	all, err := transports(ctx, t.client)
	return err == nil && len(all) == 0, err
}

// change runs body as the only change of the subsystem.
func change[T any](ctx context.Context, t *Target, nqn string, body func(*session) (T, error)) (T, error) {
	var zero T
	if _, err := nvmeof.ParseNQN(nqn); err != nil {
		return zero, err
	}
	mine, err := t.client.Begin(ctx, wire.ObjectSubsystem(nqn))
	if err != nil {
		return zero, err
	}
	defer mine.End()
	return body(&session{t: t, ctx: ctx, nqn: nqn, writer: mine})
}

// Inspect implements nvmeof.Target.
func (t *Target) Inspect(ctx context.Context, nqn string) (nvmeof.State, error) {
	if _, err := nvmeof.ParseNQN(nqn); err != nil {
		return nvmeof.State{}, err
	}
	sub, err := wire.FindSubsystem(ctx, t.client, nqn)
	if err != nil {
		return nvmeof.State{}, err
	}
	if sub == nil {
		return nvmeof.State{}, notFound(nqn)
	}
	return t.withHosts(ctx, *sub)
}

// List implements nvmeof.Target.
func (t *Target) List(ctx context.Context) ([]nvmeof.State, error) {
	subs, err := wire.Subsystems(ctx, t.client)
	if err != nil {
		return nil, err
	}
	states := make([]nvmeof.State, len(subs))
	for _, err := range together.Each(len(subs), func(i int) (err error) {
		states[i], err = t.withHosts(ctx, subs[i])
		return err
	}) {
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(states, func(a, b nvmeof.State) int { return strings.Compare(a.NQN, b.NQN) })
	return states, nil
}
