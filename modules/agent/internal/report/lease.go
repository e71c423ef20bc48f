package report

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Heartbeat renews the node's Lease (design.md §3). It runs beside the reporter,
// so that a slow drive does not make the node look dead.
type Heartbeat struct {
	Client    client.Client
	NodeName  string
	Namespace string // of the Lease: the driver's
	// Period between two renewals; 0 means v1alpha1.LeaseRenewSeconds.
	Period time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// retryPeriod is the pause after a renewal that failed.
const retryPeriod = 3 * time.Second

// Start implements manager.Runnable.
func (h *Heartbeat) Start(ctx context.Context) error {
	period := h.Period
	if period == 0 {
		period = v1alpha1.LeaseRenewSeconds * time.Second
	}
	for {
		next := period
		if err := h.Renew(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "node lease could not be renewed", "node", h.NodeName)
			next = min(period, retryPeriod)
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// Renew writes the Lease once: one PATCH, and a POST the first time.
func (h *Heartbeat) Renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v1alpha1.LeaseRenewSeconds*time.Second)
	defer cancel()
	now := time.Now
	if h.Now != nil {
		now = h.Now
	}
	seconds := int32(v1alpha1.LeaseStaleSeconds)
	renewed := metav1.NewMicroTime(now())
	spec := coordinationv1.LeaseSpec{HolderIdentity: &h.NodeName, LeaseDurationSeconds: &seconds, RenewTime: &renewed}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: v1alpha1.LeaseNamePrefix + h.NodeName}}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return fmt.Errorf("renew lease %s: %w", lease.Name, err)
	}
	err = h.Client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		lease.Spec = spec
		lease.Spec.AcquireTime = &renewed
		err = h.Client.Create(ctx, lease)
	}
	if err != nil {
		return fmt.Errorf("renew lease %s/%s: %w", h.Namespace, lease.Name, err)
	}
	return nil
}
