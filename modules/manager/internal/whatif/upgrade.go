package whatif

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// UpgradeAgent foretells that the agent of a storage node is replaced.
func UpgradeAgent(i *gather.Inventory, now time.Time, node string) (*Plan, error) {
	if target(i, node) == nil && len(stored(i, node, "")) == 0 {
		return nil, fmt.Errorf("storage node %s: %w: no RDMAStorageNode has this name", node, ErrNotFound)
	}
	p := plan(i, "upgrade-agent", node)
	for _, v := range stored(i, node, "") {
		outage := "none: the kernel serves it without the agent"
		if v.Spec.TargetBackend == v1alpha1.BackendSPDK {
			outage = "I/O waits while the SPDK target starts again"
		}
		p.affect(i, v, Stored, i.PodsOf(v), outage)
		switch {
		case v.DeletionTimestamp != nil:
			p.refuse("NVMePartition "+v.Namespace+"/"+v.Name, "is being deleted: that waits for the new agent")
		case !meta.IsStatusConditionTrue(v.Status.Conditions, v1alpha1.ConditionExported):
			p.refuse("NVMePartition "+v.Namespace+"/"+v.Name, "is not exported: that waits for the new agent")
		}
	}
	for j := range i.Attachments {
		if a := &i.Attachments[j]; a.Spec.TargetNode == node && a.DeletionTimestamp != nil {
			p.refuse("NVMeVolumeAttachment "+a.Namespace+"/"+a.Name, "node %s is being fenced: its volume is detached only by the new agent", a.Spec.NodeID)
		}
	}
	if since, gone := silent(i, now, node); gone {
		p.Notes = append(p.Notes, fmt.Sprintf("the agent is silent already, since %s", since.UTC().Format(time.RFC3339)))
	}
	p.Notes = append(p.Notes,
		"until the new agent is ready, nothing is created, attached, detached or deleted on "+node,
		fmt.Sprintf("after %d s without an agent, new volumes go to other nodes", v1alpha1.LeaseStaleSeconds))
	return p.sorted(), nil
}
