package report

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// reportNode makes the node's RDMAStorageNode as the scans say.
func (r *Reporter) reportNode(ctx, scanCtx context.Context, scan inventory.Scan, portals inventory.PortalScan) error {
	var spdk *metav1.Condition
	if r.SPDK != nil {
		c := r.SPDK(scanCtx)
		spdk = &c
	}
	have := &v1alpha1.RDMAStorageNode{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: r.NodeName}, have)
	switch {
	case apierrors.IsNotFound(err):
		have = &v1alpha1.RDMAStorageNode{
			ObjectMeta: metav1.ObjectMeta{Name: r.NodeName},
			Spec: v1alpha1.RDMAStorageNodeSpec{
				NodeName: r.NodeName, Portals: r.portals(portals, nil), TargetBackends: served(spdk),
			},
		}
		if err := r.Client.Create(ctx, have); err != nil {
			return fmt.Errorf("create RDMAStorageNode %s: %w", r.NodeName, err)
		}
	case err != nil:
		return fmt.Errorf("read RDMAStorageNode %s: %w", r.NodeName, err)
	default:
		want := have.DeepCopy()
		want.Spec.Portals, want.Spec.TargetBackends = r.portals(portals, have.Spec.Portals), served(spdk)
		if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
			if err := r.Client.Patch(ctx, want, client.MergeFrom(have)); err != nil {
				return fmt.Errorf("update portals of RDMAStorageNode %s: %w", r.NodeName, err)
			}
			have = want
		}
	}
	return r.reportNodeStatus(ctx, have, scan, portals, spdk)
}

func (r *Reporter) reportNodeStatus(ctx context.Context, have *v1alpha1.RDMAStorageNode, scan inventory.Scan, portals inventory.PortalScan, spdk *metav1.Condition) error {
	want := have.DeepCopy()
	partitions, err := r.ownPartitions(ctx)
	if err != nil {
		return err
	}
	if want.Status.TotalCapacity, err = r.claimedCapacity(ctx); err != nil {
		return err
	}
	want.Status.ActiveExports = activeExports(partitions)
	if c, known := r.targetAudit(partitions); known {
		r.setCondition(&want.Status.Conditions, want.Generation, c)
	}
	if spdk != nil {
		r.setCondition(&want.Status.Conditions, want.Generation, *spdk)
	} else {
		meta.RemoveStatusCondition(&want.Status.Conditions, v1alpha1.ConditionSPDKReady)
	}
	for _, c := range []metav1.Condition{
		scanCondition(v1alpha1.ConditionSysfsInventoryReady, scan.Complete, scan.Problems),
		scanCondition(v1alpha1.ConditionRDMAInventoryReady, portals.Complete, portals.Problems),
		// SPDK's drives are in the same scan.
		scanCondition(v1alpha1.ConditionNVMeInventoryReady, scan.Complete, scan.Problems),
		readyCondition(r.Ready(), len(want.Spec.Portals)),
	} {
		r.setCondition(&want.Status.Conditions, want.Generation, c)
	}
	now := metav1.NewTime(r.Now()).Rfc3339Copy()
	last := have.Status.LastHeartbeatTime
	due := last == nil || now.Sub(last.Time) >= StatusPeriod
	if equality.Semantic.DeepEqual(have.Status, want.Status) && !due {
		return nil
	}
	want.Status.LastHeartbeatTime = &now
	// The manager may set Ready=False at the same time, and a merge patch replaces
	// the list of conditions as a whole.
	patch := client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, want, patch); err != nil {
		return fmt.Errorf("update status of RDMAStorageNode %s: %w", r.NodeName, err)
	}
	return nil
}

// served are the backends that serve volumes; nil is the kernel alone, as from agents
// that knew no other.
func served(spdk *metav1.Condition) []v1alpha1.TargetBackend {
	if spdk == nil || spdk.Status != metav1.ConditionTrue {
		return nil
	}
	return []v1alpha1.TargetBackend{v1alpha1.BackendKernel, v1alpha1.BackendSPDK}
}

// portals are the API's form of a scan's. From a scan that is not complete, the
// portals that it does not have are kept.
func (r *Reporter) portals(scan inventory.PortalScan, before []v1alpha1.NodePortal) []v1alpha1.NodePortal {
	var out []v1alpha1.NodePortal
	for _, p := range scan.Portals {
		n := v1alpha1.NodePortal{
			Portal:    v1alpha1.Portal{Transport: v1alpha1.TransportRDMA, Address: p.Address.String(), Port: r.RDMAPort},
			Fabric:    v1alpha1.Fabric(p.Fabric),
			Device:    p.Device,
			LinkSpeed: p.SpeedMbps,
		}
		if p.Fabric == inventory.FabricTCP {
			n.Transport, n.Port, n.Device = v1alpha1.TransportTCP, r.TCPPort, p.Interface
		}
		if p.NUMANode >= 0 {
			numa := int32(p.NUMANode)
			n.NUMANode = &numa
		}
		out = append(out, n)
	}
	if !scan.Complete {
		for _, old := range before {
			if !slices.ContainsFunc(out, func(n v1alpha1.NodePortal) bool { return n.Portal == old.Portal }) {
				out = append(out, old)
			}
		}
	}
	const limit = 64 // of the API
	return out[:min(len(out), limit)]
}

func scanCondition(kind string, complete bool, problems []inventory.Problem) metav1.Condition {
	if !complete {
		return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonScanDegraded, Message: messages(problems)}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonScanComplete, Message: messages(problems)}
}

func readyCondition(started bool, portals int) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}
	switch {
	case !started:
		c.Reason, c.Message = v1alpha1.ReasonAgentStarting, "the agent has not yet looked at every target"
	case portals == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoUsablePortal, "no active RDMA port and no TCP interface has an address that a target can listen on"
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonAgentReady
	}
	return c
}

func (r *Reporter) claimedCapacity(ctx context.Context) (int64, error) {
	objects, err := r.ownDevices(ctx)
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, d := range objects {
		if d.Status.ClaimRef != nil {
			sum += d.Spec.TotalCapacity
		}
	}
	return sum, nil
}

func activeExports(partitions []v1alpha1.NVMePartition) int32 {
	var n int32
	for _, p := range partitions {
		if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported) {
			n++
		}
	}
	return n
}

// ownPartitions returns the partitions that are placed on this node, as the cache has
// them: nobody may change them.
func (r *Reporter) ownPartitions(ctx context.Context) ([]v1alpha1.NVMePartition, error) {
	var all v1alpha1.NVMePartitionList
	if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list NVMePartitions: %w", err)
	}
	return slices.DeleteFunc(all.Items, func(p v1alpha1.NVMePartition) bool { return p.Spec.NodeName != r.NodeName }), nil
}
