package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/written"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	// lookTimeout bounds one look at all pools.
	lookTimeout = time.Minute
	// statusPeriod is how often the status is written at least (design.md §9).
	statusPeriod = 5 * time.Minute
)

// Config is what a Reporter needs. All fields but Delay and Now are required.
type Config struct {
	// Client reads from a cache that holds this node's objects, and writes.
	Client   client.Client
	NodeName string
	ZFS      *zfs.Manager
	// Portals are where targets of this node listen.
	Portals volume.Portals
	// Delay is the time to the next look; nil means half a minute to a minute.
	Delay func() time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Reporter writes the status of this node's StorageNode. It is a reconciler with a
// single request: this node.
//
// Each look at a pool has a generation, which is given before the look begins.
// What was made before a look began is part of it; so a volume that exists is
// contained in the look with the generation that Next answers, and in each later
// one (design.md §5). Generations only grow, over the lives of agents too: the
// status is written under its resourceVersion, and Next answers only when this
// life has written it once, so nothing of an earlier life can follow.
type Reporter struct {
	Config

	// running is held for a whole look.
	running sync.Mutex

	mu sync.Mutex
	// begun is the generation of the last look that began, by the pool's GUID.
	begun map[v1alpha1.PoolGUID]int64
	// live is the UID of the StorageNode that this life has written.
	live    string
	written written.Memory[*v1alpha1.StorageNode]
}

// NewReporter returns a Reporter.
func NewReporter(c Config) (*Reporter, error) {
	if c.Client == nil || c.NodeName == "" || c.ZFS == nil || c.Portals == nil {
		return nil, errors.New("pool reporter: client, node name, ZFS and portals must all be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Reporter{Config: c, begun: map[v1alpha1.PoolGUID]int64{}}, nil
}

// Next is the generation of the first look at the pool that is sure to contain
// what exists now; false when this agent has not published a look yet.
func (r *Reporter) Next(guid v1alpha1.PoolGUID) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[guid] + 1, r.live != "" && r.begun[guid] > 0
}

// Reconcile implements reconcile.Reconciler.
func (r *Reporter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	if req.Name != r.NodeName {
		return reconcile.Result{}, nil
	}
	switch err := r.Publish(ctx); {
	case apierrors.IsConflict(err):
		// The cache does not show yet what was written; it will.
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case err != nil:
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.Delay()}, nil
}

// Publish looks at the pools and writes what is another than was written last.
// Without an error, what is published contains everything that existed when
// Publish was called.
func (r *Reporter) Publish(ctx context.Context) error {
	r.running.Lock()
	defer r.running.Unlock()
	have := &v1alpha1.StorageNode{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: r.NodeName}, have); {
	case apierrors.IsNotFound(err):
		r.written.Forget(client.ObjectKey{Name: r.NodeName})
		return nil
	case err != nil:
		return fmt.Errorf("read StorageNode %s: %w", r.NodeName, err)
	}
	have = r.written.Latest(have)
	lookCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	seen, err := r.look(lookCtx, have)
	if err != nil {
		return err
	}
	want := have.DeepCopy()
	want.Status = r.status(have, seen)
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	last := have.Status.LastObservedTime
	due := last == nil || now.Sub(last.Time) >= statusPeriod || r.first(have)
	if !due && !seen.awaited && equality.Semantic.DeepEqual(contentOf(have.Status), contentOf(want.Status)) {
		return nil
	}
	want.Status.LastObservedTime = &now
	return r.write(ctx, have, want)
}

// first tells whether this life has not yet written the object.
func (r *Reporter) first(n *v1alpha1.StorageNode) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.live != string(n.UID)
}

// write patches the status under the version that the look began with. Who asks
// for Next while the answer is on its way waits for it.
func (r *Reporter) write(ctx context.Context, have, want *v1alpha1.StorageNode) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	patch := client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, want, patch); err != nil {
		return fmt.Errorf("update status of StorageNode %s: %w", r.NodeName, err)
	}
	r.live = string(have.UID)
	r.written.Note(have, want)
	return nil
}

// contentOf is the status without what every look changes.
func contentOf(st v1alpha1.StorageNodeStatus) v1alpha1.StorageNodeStatus {
	out := *st.DeepCopy()
	out.LastObservedTime = nil
	for i := range out.Pools {
		out.Pools[i].SampleGeneration, out.Pools[i].CapacityObservedAt = 0, nil
	}
	return out
}

var _ reconcile.Reconciler = (*Reporter)(nil)
