package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// sight is what one look at the node found. Reason is why the node is not ready,
// ReasonObservationSucceeded when it is.
type sight struct {
	reason, message string
	endpoints       []v1alpha1.Endpoint
	// pools are those that are imported; nil when they were not looked at.
	pools map[v1alpha1.PoolGUID]poolSight
	// strangers are datasets that no object asks for, missing are volumes that are
	// not there; audited tells whether all pools were compared.
	strangers, missing []string
	audited            bool
	// awaited: a volume waits for a sample of a later generation than is published.
	awaited bool
}

// poolSight is one pool of the node.
type poolSight struct {
	name       string
	sample     *zfs.Sample // nil when it could not be taken
	generation int64
}

// look finds everything out that the status says. Its error is one that says
// nothing about the node.
func (r *Reporter) look(ctx context.Context, n *v1alpha1.StorageNode) (*sight, error) {
	volumes, err := r.volumes(ctx)
	if err != nil {
		return nil, err
	}
	s := &sight{reason: v1alpha1.ReasonObservationSucceeded}
	no := func(reason, format string, args ...any) {
		if s.reason == v1alpha1.ReasonObservationSucceeded {
			s.reason, s.message = reason, fmt.Sprintf(format, args...)
		}
	}
	r.lookAtNode(ctx, n, no)
	for _, guid := range declared(n) {
		if !zfs.ValidGUID(guid) {
			no(v1alpha1.ReasonInvalidAuthoritativeIdentity, "authoritativePoolGUIDs has %q, which is not a 64-bit number that is not zero", guid)
		}
	}
	if err := r.lookAtEndpoints(ctx, s); err != nil {
		no(v1alpha1.ReasonEndpointInvalid, "%v", err)
	}
	if len(n.Spec.AuthoritativePoolGUIDs) == 0 {
		s.message = orElse(s.message, "no pools are declared")
		return s, nil
	}
	pools, err := r.ZFS.Pools(ctx)
	if err != nil {
		no(v1alpha1.ReasonDiscoveryFailed, "%v", err)
		return s, nil
	}
	if err := zfs.Authorize(declared(n), slices.DeleteFunc(slices.Clone(pools), func(p zfs.Pool) bool { return !p.Online() })); err != nil {
		no(v1alpha1.ReasonPoolIdentityMismatch, "%s", described(err, pools))
	}
	s.pools, s.audited = map[v1alpha1.PoolGUID]poolSight{}, true
	for _, p := range pools {
		if guid := v1alpha1.PoolGUID(p.GUID); slices.Contains(n.Spec.AuthoritativePoolGUIDs, guid) {
			if err := r.lookAtPool(ctx, n, s, p, volumes); err != nil {
				s.audited = false
				no(v1alpha1.ReasonCapacityAccountingFailed, "%v", err)
			}
		}
	}
	return s, nil
}

// described adds the health of the pools that ZFS does not call usable.
func described(err error, pools []zfs.Pool) string {
	out := []string{err.Error()}
	for _, p := range pools {
		if !p.Online() {
			out = append(out, fmt.Sprintf("pool %s is %s", p, p.Health))
		}
	}
	return strings.Join(out, "; ")
}

// lookAtNode finds out whether the Kubernetes node can serve volumes.
func (r *Reporter) lookAtNode(ctx context.Context, n *v1alpha1.StorageNode, no func(reason, format string, args ...any)) {
	node := &corev1.Node{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: r.NodeName}, node); {
	case apierrors.IsNotFound(err):
		no(v1alpha1.ReasonNodeNotFound, "there is no node %s", r.NodeName)
		return
	case err != nil:
		no(v1alpha1.ReasonNodeReadFailed, "read node %s: %v", r.NodeName, err)
		return
	}
	if n.Spec.Enabled != nil && !*n.Spec.Enabled {
		no(v1alpha1.ReasonDisabled, "spec.enabled is false")
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return
		}
	}
	no(v1alpha1.ReasonNodeNotReady, "node %s is not Ready", r.NodeName)
}

// lookAtEndpoints finds the addresses that volumes are served from.
func (r *Reporter) lookAtEndpoints(ctx context.Context, s *sight) error {
	var errs []error
	for _, t := range []v1alpha1.Transport{v1alpha1.TransportTCP, v1alpha1.TransportRDMA} {
		portals, err := r.Portals.On(ctx, t)
		errs = append(errs, err)
		for _, p := range portals {
			s.endpoints = append(s.endpoints, v1alpha1.Endpoint{Protocol: v1alpha1.EndpointProtocol("nvme-" + string(t)), Host: p.Address, Port: p.Port})
		}
	}
	const limit = 64 // of the API
	s.endpoints = s.endpoints[:min(len(s.endpoints), limit)]
	switch err := errors.Join(errs...); {
	case len(s.endpoints) > 0:
		return nil
	case err != nil:
		return err
	}
	return errors.New("the node has no address that a target can listen on")
}

// lookAtPool samples a pool, and compares what it holds with the volumes. The
// generation is given before.
func (r *Reporter) lookAtPool(ctx context.Context, n *v1alpha1.StorageNode, s *sight, p zfs.Pool, volumes []v1alpha1.Volume) error {
	guid := v1alpha1.PoolGUID(p.GUID)
	published := int64(0)
	if at := slices.IndexFunc(n.Status.Pools, func(p v1alpha1.PoolStatus) bool { return p.GUID == guid }); at >= 0 {
		published = n.Status.Pools[at].SampleGeneration
	}
	for i := range volumes {
		if v := &volumes[i]; v.Spec.PoolGUID == guid && v.Status.AccountedGeneration > published {
			s.awaited = true
		}
	}
	seen := poolSight{name: p.Name, generation: r.begin(guid, published, volumes)}
	err := r.ZFS.Check(ctx, p)
	if err == nil {
		var sample zfs.Sample
		if sample, err = r.ZFS.Sample(ctx, p); err == nil {
			seen.sample = &sample
			err = r.audit(ctx, s, p, sample, volumes)
		}
	}
	s.pools[guid] = seen
	return err
}

// begin gives the next look at the pool its generation.
func (r *Reporter) begin(guid v1alpha1.PoolGUID, published int64, volumes []v1alpha1.Volume) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := max(r.begun[guid], published) + 1
	for i := range volumes {
		if v := &volumes[i]; v.Spec.PoolGUID == guid {
			next = max(next, v.Status.AccountedGeneration)
		}
	}
	r.begun[guid] = next
	return next
}

// volumes are those that this node owns.
func (r *Reporter) volumes(ctx context.Context) ([]v1alpha1.Volume, error) {
	var all v1alpha1.VolumeList
	if err := r.Client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list volumes of this node: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(v v1alpha1.Volume) bool { return v.Spec.OwnerNode != r.NodeName }), nil
}

// audit compares a pool with the objects as they were before the look and are
// after it: what is made or deleted meanwhile is neither a stranger nor missing.
func (r *Reporter) audit(ctx context.Context, s *sight, p zfs.Pool, sample zfs.Sample, before []v1alpha1.Volume) error {
	after, err := r.volumes(ctx)
	if err != nil {
		return err
	}
	known, still, there := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, v := range slices.Concat(before, after) {
		known[string(v.UID)] = true
	}
	for _, v := range after {
		still[string(v.UID)] = v.DeletionTimestamp.IsZero()
	}
	for _, v := range sample.Volumes {
		there[v.GUID] = true
		if !known[v.UID] {
			s.strangers = append(s.strangers, "zvol "+v.Dataset)
		}
	}
	for _, name := range sample.Others {
		s.strangers = append(s.strangers, "dataset "+name)
	}
	for _, v := range before {
		if guid := v.Status.DatasetGUID; string(v.Spec.PoolGUID) == p.GUID && guid != "" && still[string(v.UID)] && !there[guid] {
			s.missing = append(s.missing, fmt.Sprintf("%s (zvol %s)", v.Name, v.Status.DatasetPath))
		}
	}
	slices.Sort(s.strangers)
	slices.Sort(s.missing)
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
