package apiserver

import (
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

type (
	aDevice     = v1alpha1.NVMeDevice
	aClaim      = v1alpha1.NVMeDeviceClaim
	aPartition  = v1alpha1.NVMePartition
	aAttachment = v1alpha1.NVMeVolumeAttachment
	aNode       = v1alpha1.RDMAStorageNode
)

func refusals() []refusal {
	return slices.Concat(inventoryRefusals(), partitionRefusals(), attachmentRefusals(),
		storageNodeRefusals(), volumeRefusals(), snapshotRefusals(), importRefusals())
}

func acceptances() []acceptance { return slices.Concat(deviceAcceptances(), poolAcceptances()) }

func inventoryRefusals() []refusal {
	return []refusal{
		keep("spec", "nodeName is immutable", device, func(d *aDevice) { d.Spec.NodeName = "storage-b" }),
		keep("spec", "serialNumber is immutable", device, func(d *aDevice) { d.Spec.SerialNumber = "OTHER" }),
		keepStatus("status", "claimRef is immutable while the drive has reservations", reservedDevice, func(d *aDevice) { d.Status.ClaimRef = nil }),
		keepStatus("status", "claimRef is immutable while the drive has reservations", reservedDevice, func(d *aDevice) { d.Status.ClaimRef.UID = uidB }),
		keepStatus("status.reservations[1]", "Duplicate value", reservedDevice, func(d *aDevice) {
			d.Status.Reservations = append(d.Status.Reservations, d.Status.Reservations[0])
		}),
		refuse("empty serial number", "spec.serialNumber", "should be at least 1 chars long", device, func(d *aDevice) { d.Spec.SerialNumber = "" }),
		refuse("PCI address without function", "spec.pciAddress", "should match", device, func(d *aDevice) { d.Spec.PCIAddress = "0000:3b:00" }),
		refuse("negative capacity", "spec.totalCapacity", "greater than or equal to 0", device, func(d *aDevice) { d.Spec.TotalCapacity = -1 }),

		keep("spec.serialNumber", "serialNumber is immutable", claim, func(c *aClaim) { c.Spec.SerialNumber = "OTHER" }),
		refuse("empty serial number", "spec.serialNumber", "should be at least 1 chars long", claim, func(c *aClaim) { c.Spec.SerialNumber = "" }),
		refuse("serial number with a trailing space", "spec.serialNumber", "should match", claim, func(c *aClaim) { c.Spec.SerialNumber = "S1 " }),
		refuse("serial number of 21 bytes", "spec.serialNumber", "Too long", claim, func(c *aClaim) { c.Spec.SerialNumber = strings.Repeat("S", 21) }),

		keep("spec", "nodeName is immutable", rdmaNode, func(n *aNode) { n.Spec.NodeName = "storage-b" }),
		refuse("unknown fabric", "spec.portals[0].fabric", "Unsupported value", rdmaNode, func(n *aNode) { n.Spec.Portals[0].Fabric = "FibreChannel" }),
		refuse("port 0", "spec.portals[0].port", "greater than or equal to 1", rdmaNode, func(n *aNode) { n.Spec.Portals[0].Port = 0 }),
	}
}

func partitionRefusals() []refusal {
	const (
		setTogether = "nodeName, parentDeviceSerialNumber and claimRef are set together"
		setOnce     = "nodeName, parentDeviceSerialNumber and claimRef are immutable once set"
		filesystem  = "filesystem must be set for accessType mount and absent for block"
	)
	cloned := func() *aPartition {
		p := partition()
		ref := partitionRef()
		p.Spec.Source = &v1alpha1.VolumeSource{Volume: &ref}
		return p
	}
	return []refusal{
		keep("spec.size", sizeRule, partition, func(p *aPartition) { p.Spec.Size = 4 * mib }),
		keep("spec", "targetBackend is immutable", partition, func(p *aPartition) { p.Spec.TargetBackend = v1alpha1.BackendSPDK }),
		keep("spec.volumeManager", "Unsupported value", partition, func(p *aPartition) { p.Spec.VolumeManager = "lvm" }),
		keep("spec", "transport is immutable", partition, func(p *aPartition) { p.Spec.Transport = v1alpha1.TransportRDMA }),
		keep("spec", "targetOptions is immutable", spdkPartition, func(p *aPartition) { p.Spec.TargetOptions.SPDKCoreMask = "0x4" }),
		keep("spec", "targetOptions is immutable", spdkPartition, func(p *aPartition) { p.Spec.TargetOptions = nil }),
		keep("spec", "accessMode is immutable", partition, func(p *aPartition) { p.Spec.AccessMode = v1alpha1.ReadOnlyMany }),
		keep("spec", "accessType is immutable", partition, func(p *aPartition) { p.Spec.AccessType, p.Spec.Filesystem = v1alpha1.AccessBlock, "" }),
		keep("spec", "filesystem is immutable", partition, func(p *aPartition) { p.Spec.Filesystem = v1alpha1.XFS }),
		keep("spec", "requestFingerprint is immutable", partition, func(p *aPartition) { p.Spec.RequestFingerprint = fingerprintB }),
		keep("spec", "topology is immutable", partition, func(p *aPartition) {
			p.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"rack-1"}}
		}),
		keep("spec", "source is immutable", cloned, func(p *aPartition) { p.Spec.Source = nil }),
		keep("spec", setOnce, placedPartition, func(p *aPartition) { p.Spec.NodeName = "storage-b" }),
		keep("spec", setOnce, placedPartition, func(p *aPartition) { p.Spec.ParentDeviceSerialNumber = "OTHER" }),
		keep("spec", setOnce, placedPartition, func(p *aPartition) { p.Spec.ClaimRef.UID = uidB }),
		keep("spec", setOnce, placedPartition, func(p *aPartition) {
			p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber, p.Spec.ClaimRef = "", "", nil
		}),
		refuse("node without drive", "spec", setTogether, placedPartition, func(p *aPartition) { p.Spec.ParentDeviceSerialNumber = "" }),
		refuse("node and drive without claim", "spec", setTogether, placedPartition, func(p *aPartition) { p.Spec.ClaimRef = nil }),
		refuse("mount without filesystem", "spec", filesystem, partition, func(p *aPartition) { p.Spec.Filesystem = "" }),
		refuse("block with filesystem", "spec", filesystem, partition, func(p *aPartition) { p.Spec.AccessType = v1alpha1.AccessBlock }),
		refuse("many writers of a filesystem", "spec", "accessMode ReadWriteMany needs accessType block: a filesystem has one writer", partition,
			func(p *aPartition) { p.Spec.AccessMode = v1alpha1.ReadWriteMany }),
		refuse("core mask for the kernel", "spec", "targetOptions.spdkCoreMask needs targetBackend spdk", spdkPartition,
			func(p *aPartition) { p.Spec.TargetBackend = v1alpha1.BackendKernel }),
		refuse("two sources", "spec.source", "exactly one of snapshot and volume must be set", cloned,
			func(p *aPartition) { p.Spec.Source.Snapshot = &v1alpha1.SnapshotReference{Name: "s", UID: uidA} }),
		refuse("a source that is nothing", "spec.source", "exactly one of snapshot and volume must be set", partition,
			func(p *aPartition) { p.Spec.Source = &v1alpha1.VolumeSource{} }),
		refuse("a source without namespace", "spec.source.volume", namespaceRule, cloned, func(p *aPartition) { p.Spec.Source.Volume.Namespace = "" }),
		refuse("size between two units", "spec.size", "should be a multiple of", partition, func(p *aPartition) { p.Spec.Size = 5 * mib }),
		refuse("size 0", "spec.size", "greater than or equal to 4194304", partition, func(p *aPartition) { p.Spec.Size = 0 }),
		refuse("no backend", "spec.targetBackend", "Unsupported value", partition, func(p *aPartition) { p.Spec.TargetBackend = "" }),
		refuse("unknown transport", "spec.transport", "Unsupported value", partition, func(p *aPartition) { p.Spec.Transport = "fc" }),
		refuse("unknown filesystem", "spec.filesystem", "Unsupported value", partition, func(p *aPartition) { p.Spec.Filesystem = "btrfs" }),
		refuse("short fingerprint", "spec.requestFingerprint", "should match", partition, func(p *aPartition) { p.Spec.RequestFingerprint = "ab" }),
	}
}

// sizeRule is the message of NVMePartition's rule about its size.
const sizeRule = "size may only grow, or go back to no less than status.allocatedCapacity"

// namespaceRule is the message of VolumeReference's rule.
const namespaceRule = "namespace must be set for an NVMePartition and absent for a Volume, which has cluster scope"

func attachmentRefusals() []refusal {
	const immutable = "the spec of an attachment is immutable"
	return []refusal{
		keep("spec", immutable, attachment, func(a *aAttachment) { a.Spec.VolumeRef.UID = uidB }),
		keep("spec", immutable, attachment, func(a *aAttachment) { a.Spec.TargetNode = "storage-b" }),
		keep("spec", immutable, attachment, func(a *aAttachment) { a.Spec.NodeID = "consumer-b" }),
		keep("spec", immutable, attachment, func(a *aAttachment) {
			a.Spec.HostNQN = "nqn.2026-01.io.distort:host-" + strings.Repeat("f", 32)
		}),
		keep("spec", immutable, attachment, func(a *aAttachment) { a.Spec.AttachmentID = uidA }),
		refuse("partition without namespace", "spec.volumeRef", namespaceRule, attachment, func(a *aAttachment) { a.Spec.VolumeRef.Namespace = "" }),
		refuse("volume with namespace", "spec.volumeRef", namespaceRule, attachment, func(a *aAttachment) { a.Spec.VolumeRef.Kind = v1alpha1.KindVolume }),
		refuse("foreign host NQN", "spec.hostNQN", "should match", attachment, func(a *aAttachment) {
			a.Spec.HostNQN = "nqn.2014-08.org.nvmexpress:uuid:" + uidA[:24]
		}),
		refuse("attachment ID that is no UUID", "spec.attachmentID", "should match", attachment, func(a *aAttachment) { a.Spec.AttachmentID = "1" }),
	}
}

func deviceAcceptances() []acceptance {
	block := func(p *aPartition) { p.Spec.AccessType, p.Spec.Filesystem = v1alpha1.AccessBlock, "" }
	return []acceptance{
		accept("a drive", device),
		allow("moved to another slot", device, func(d *aDevice) { d.Spec.PCIAddress = "0000:5e:00.0" }),
		accept("a serial number", claim),
		accept("a serial number with a space inside", claim, func(c *aClaim) { c.Spec.SerialNumber = "QM 01" }),
		accept("portals", rdmaNode),
		allow("a portal gone", rdmaNode, func(n *aNode) { n.Spec.Portals = nil }),
		accept("mounted", partition),
		accept("default volume manager", partition, func(p *aPartition) { p.Spec.VolumeManager = "" }),
		accept("raw block", partition, block),
		accept("raw block of many writers", partition, block, func(p *aPartition) { p.Spec.AccessMode = v1alpha1.ReadWriteMany }),
		accept("core mask for spdk", spdkPartition),
		accept("restored", partition, func(p *aPartition) {
			p.Spec.Source = &v1alpha1.VolumeSource{Snapshot: &v1alpha1.SnapshotReference{Name: "s", UID: uidA}}
		}),
		accept("cloned from a partition", partition, func(p *aPartition) {
			ref := partitionRef()
			p.Spec.Source = &v1alpha1.VolumeSource{Volume: &ref}
		}),
		accept("topology", partition, func(p *aPartition) {
			p.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"rack-1"}, Preferred: []v1alpha1.DomainName{"rack-1"}}
		}),
		allow("placed once", partition, place),
		allow("grown", placedPartition, func(p *aPartition) { p.Spec.Size = 128 * mib }),
		accept("of a partition", attachment),
		accept("of a volume", attachment, func(a *aAttachment) { a.Spec.VolumeRef = volumeRef() }),
		allow("asked to be forced", attachment, func(a *aAttachment) {
			a.Annotations = map[string]string{v1alpha1.ForceDetachAnnotation: "consumer-a"}
		}),
	}
}
