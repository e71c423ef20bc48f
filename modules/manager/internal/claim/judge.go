package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/drive"
	"github.com/distort-io/distort/modules/manager/internal/placement"
)

// verdict is what a claim gets.
type verdict struct {
	// device that the claim owns or is to own; nil when it gets none.
	device *v1alpha1.NVMeDevice
	// leaves are devices that the claim owns and is to let go first.
	leaves []*v1alpha1.NVMeDevice
	// reason and message of condition Bound.
	reason, message string
}

// judge decides what a live claim gets of the devices with its serial number.
// The names of those who own a device are looked up in owners; holders are the
// partitions on the devices.
func judge(claim *v1alpha1.NVMeDeviceClaim, devices []*v1alpha1.NVMeDevice, owners map[types.UID]string, holders []placement.Holder) verdict {
	var owned []*v1alpha1.NVMeDevice
	for _, device := range devices {
		if owns(claim, device) {
			owned = append(owned, device)
		}
	}
	if len(owned) > 0 {
		return keep(claim, owned, devices, owners, holders)
	}
	return choose(claim, devices, owners, holders)
}

// choose decides for a claim that owns nothing yet.
func choose(claim *v1alpha1.NVMeDeviceClaim, devices []*v1alpha1.NVMeDevice, owners map[types.UID]string, holders []placement.Holder) verdict {
	present := slices.DeleteFunc(slices.Clone(devices), eligibility.Absent)
	switch {
	case len(devices) == 0:
		return verdict{reason: v1alpha1.ReasonDeviceNotFound,
			message: fmt.Sprintf("no NVMeDevice has serial number %q", claim.Spec.SerialNumber)}
	case len(present) == 0:
		return verdict{reason: v1alpha1.ReasonDriveUnavailable,
			message: fmt.Sprintf("the drive is not in %s any more", nodesOf(devices))}
	case len(present) > 1:
		return verdict{reason: v1alpha1.ReasonDuplicateDevices,
			message: fmt.Sprintf("%d drives have serial number %q, in %s: none is bound", len(present), claim.Spec.SerialNumber, nodesOf(present))}
	}
	device := present[0]
	if ref := device.Status.ClaimRef; ref != nil {
		owner := owners[ref.UID]
		if owner == "" {
			owner = fmt.Sprintf("%s/%s (UID %s), which is gone but has partitions", ref.Namespace, ref.Name, ref.UID)
		}
		return verdict{reason: v1alpha1.ReasonClaimedByAnother,
			message: fmt.Sprintf("NVMeDevice %s belongs to NVMeDeviceClaim %s", device.Name, owner)}
	}
	if reason, message, ok := drive.Unusable(device); !ok {
		v := verdict{reason: v1alpha1.ReasonDriveUnavailable,
			message: fmt.Sprintf("NVMeDevice %s: %s: %s", device.Name, reason, message)}
		if reason == v1alpha1.ReasonForeignSignature {
			v.reason = v1alpha1.ReasonDriveNotBlank
		}
		return v
	}
	var strange []client.ObjectKey
	for _, h := range holders {
		if h.Node != device.Spec.NodeName || h.Claim != claim.UID {
			strange = append(strange, h.Partition)
		}
	}
	if len(strange) > 0 {
		return verdict{reason: v1alpha1.ReasonDriveNotEmpty, message: fmt.Sprintf(
			"NVMeDevice %s holds partitions that were placed by another claim or in another node: %s", device.Name, listed(strange))}
	}
	return bound(device)
}

// keep decides for a claim that owns a device, or several by two managers that
// bound at once. A drive that is not seen keeps its claim, and a drive that was
// moved to another node takes its claim along once it is empty: partitions do
// not move with it.
func keep(claim *v1alpha1.NVMeDeviceClaim, owned, devices []*v1alpha1.NVMeDevice, owners map[types.UID]string, holders []placement.Holder) verdict {
	mine := owned[0]
	for _, device := range owned[1:] {
		if rank(device, holders) > rank(mine, holders) {
			mine = device
		}
	}
	v := bound(mine)
	for _, device := range owned {
		if device != mine && vacant(device, holders) {
			v.leaves = append(v.leaves, device)
		}
	}
	elsewhere := slices.DeleteFunc(slices.Clone(devices), func(d *v1alpha1.NVMeDevice) bool {
		return eligibility.Absent(d) || owns(claim, d)
	})
	switch {
	case len(elsewhere) == 0:
	case !eligibility.Absent(mine):
		v.message += fmt.Sprintf("; %d drives have its serial number, in %s: nothing new is placed on them",
			len(elsewhere)+1, nodesOf(append(elsewhere, mine)))
	case !vacant(mine, holders):
		v.reason = v1alpha1.ReasonDriveMoved
		v.message += fmt.Sprintf("; the drive is in %s now, and cannot be used there while it holds partitions of node %s: %s",
			nodesOf(elsewhere), mine.Spec.NodeName, listed(keysOf(holders)))
	default:
		there := choose(claim, devices, owners, nil)
		if there.device == nil {
			v.reason = v1alpha1.ReasonDriveMoved
			v.message += fmt.Sprintf("; the drive is in %s now, and cannot be used there: %s", nodesOf(elsewhere), there.message)
			return v
		}
		there.leaves = append(v.leaves, mine)
		return there
	}
	return v
}

// rank tells which of several devices a claim keeps: one with partitions, else
// one that is there.
func rank(device *v1alpha1.NVMeDevice, holders []placement.Holder) int {
	switch {
	case !vacant(device, holders):
		return 2
	case !eligibility.Absent(device):
		return 1
	}
	return 0
}

// vacant tells whether no partition is on a device, or about to be.
func vacant(device *v1alpha1.NVMeDevice, holders []placement.Holder) bool {
	return len(device.Status.Reservations) == 0 &&
		!slices.ContainsFunc(holders, func(h placement.Holder) bool { return h.Node == device.Spec.NodeName })
}

func keysOf(holders []placement.Holder) []client.ObjectKey {
	keys := make([]client.ObjectKey, 0, len(holders))
	for _, h := range holders {
		keys = append(keys, h.Partition)
	}
	return keys
}

func bound(device *v1alpha1.NVMeDevice) verdict {
	return verdict{device: device, reason: v1alpha1.ReasonBound,
		message: fmt.Sprintf("owns NVMeDevice %s in node %s", device.Name, device.Spec.NodeName)}
}

// owns tells whether the device's claimRef is this claim in this life.
func owns(claim *v1alpha1.NVMeDeviceClaim, device *v1alpha1.NVMeDevice) bool {
	return device.Status.ClaimRef != nil && device.Status.ClaimRef.UID == claim.UID
}

// seniority orders claims that compete: the oldest first, then by name.
func seniority(a, b *v1alpha1.NVMeDeviceClaim) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func nodesOf(devices []*v1alpha1.NVMeDevice) string {
	var nodes []string
	for _, device := range devices {
		nodes = append(nodes, device.Spec.NodeName)
	}
	slices.Sort(nodes)
	if len(nodes) == 1 {
		return "node " + nodes[0]
	}
	return "nodes " + strings.Join(nodes, " and ")
}

// stateOf sums up whether a device can be claimed.
func stateOf(device *v1alpha1.NVMeDevice) v1alpha1.DeviceState {
	if device.Status.ClaimRef != nil {
		return v1alpha1.DeviceClaimed
	}
	if _, _, ok := drive.Unusable(device); !ok {
		return v1alpha1.DeviceUnavailable
	}
	return v1alpha1.DeviceAvailable
}

// statusOf is the status of a claim with this verdict.
func statusOf(claim *v1alpha1.NVMeDeviceClaim, v verdict) v1alpha1.NVMeDeviceClaimStatus {
	status := *claim.Status.DeepCopy()
	status.Active, status.MatchedDevice, status.NodeName = false, "", ""
	outcome := metav1.ConditionFalse
	if v.device != nil {
		status.Active = claim.DeletionTimestamp == nil
		status.MatchedDevice, status.NodeName = v.device.Name, v.device.Spec.NodeName
		outcome = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionBound, Status: outcome, Reason: v.reason, Message: v.message,
		ObservedGeneration: claim.Generation,
	})
	return status
}
