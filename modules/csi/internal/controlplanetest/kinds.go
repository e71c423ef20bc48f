package controlplanetest

import (
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// place writes the place of a volume on this node into its spec.
func place(volume v1alpha1.Slice, node string) {
	switch v := volume.(type) {
	case *v1alpha1.NVMePartition:
		v.Spec.NodeName, v.Spec.ParentDeviceSerialNumber = node, SerialOn(node)
		v.Spec.ClaimRef = &v1alpha1.ObjectReference{Namespace: v.Namespace, Name: "claim-1", UID: "claim-uid"}
	case *v1alpha1.Volume:
		v.Spec.OwnerNode, v.Spec.PoolGUID, v.Spec.NetworkDomain = node, PoolGUID, Domain
	}
}

// carve writes how many bytes the volume has.
func carve(volume v1alpha1.Slice, bytes int64) {
	switch v := volume.(type) {
	case *v1alpha1.NVMePartition:
		v.Status.AllocatedCapacity = bytes
	case *v1alpha1.Volume:
		v.Status.ActualCapacity = bytes
	}
}

// observe fills in what the agent reports of a healthy export.
func observe(volume v1alpha1.Slice) {
	uid := string(volume.GetUID())
	if volume.GetActualSize() == 0 {
		carve(volume, volume.GetSize())
	}
	nqn := identity.VolumeNQN(identity.ExternalID(uid))
	portals := []v1alpha1.Portal{{Transport: volume.GetTransport(), Address: "10.0.0.1", Port: 4420}}
	set(volume, v1alpha1.ConditionPlaced, true, v1alpha1.ReasonPlaced, "placed")
	switch v := volume.(type) {
	case *v1alpha1.NVMePartition:
		st := &v.Status
		st.State, st.ExternalID, st.NQN, st.Portals = v1alpha1.PartitionExported, identity.ExternalID(uid), nqn, portals
		st.NamespaceUUID, st.NamespaceNGUID = identity.NamespaceUUID(uid), identity.NamespaceNGUID(uid)
		set(v, v1alpha1.ConditionClaimAuthorized, true, v1alpha1.ReasonClaimMatches, "claim matches")
	case *v1alpha1.Volume:
		st := &v.Status
		st.State, st.TargetNQN, st.Portals, st.DeviceGUID = v1alpha1.VolumeReadyToPublish, nqn, portals, identity.NamespaceUUID(uid)
		st.PortalHost, st.PortalPort = portals[0].Address, portals[0].Port
		st.DatasetPath, st.DatasetGUID = "tank/distort/block/"+identity.ExternalID(uid), "1"
	}
	set(volume, v1alpha1.ConditionProvisioned, true, v1alpha1.ReasonCarved, "carved")
	set(volume, v1alpha1.ConditionExported, true, v1alpha1.ReasonExported, "exported")
}
