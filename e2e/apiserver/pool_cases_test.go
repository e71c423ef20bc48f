package apiserver

import (
	"strconv"

	"k8s.io/utils/ptr"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

type (
	aStorageNode = v1alpha1.StorageNode
	aVolume      = v1alpha1.Volume
	aSnapshot    = v1alpha1.Snapshot
	aImport      = v1alpha1.VolumeImport
)

const (
	typeRule   = "type filesystem needs transport nfs, and type block needs nvme-tcp or nvme-rdma"
	exportRule = "nfsExport must be set for type filesystem and absent for block"
	cidrRule   = "must be an IPv4 or IPv6 network such as 10.0.0.0/24"
)

func storageNodeRefusals() []refusal {
	guids := func(n int) []v1alpha1.PoolGUID {
		all := make([]v1alpha1.PoolGUID, n)
		for i := range all {
			all[i] = v1alpha1.PoolGUID(strconv.Itoa(i + 1))
		}
		return all
	}
	return []refusal{
		keep("spec", "networkDomain is immutable", storageNode, func(n *aStorageNode) { n.Spec.NetworkDomain = "rack-2" }),
		keep("spec", "authoritativePoolGUIDs is immutable", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs = []v1alpha1.PoolGUID{"1"} }),
		keep("spec", "authoritativePoolGUIDs is immutable", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs = nil }),
		refuse("GUID 0", "spec.authoritativePoolGUIDs[0]", "should match", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs[0] = "0" }),
		refuse("GUID with a leading zero", "spec.authoritativePoolGUIDs[0]", "should match", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs[0] = "01" }),
		refuse("the same GUID twice", "spec.authoritativePoolGUIDs[1]", "Duplicate value", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs = []v1alpha1.PoolGUID{"1", "1"} }),
		refuse("33 GUIDs", "spec.authoritativePoolGUIDs", "must have at most 32 items", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs = guids(33) }),
		refuse("domain that is no label value", "spec.networkDomain", "should match", storageNode, func(n *aStorageNode) { n.Spec.NetworkDomain = "a/b" }),
		refuse("no domain", "spec.networkDomain", "should be at least 1 chars long", storageNode, func(n *aStorageNode) { n.Spec.NetworkDomain = "" }),
	}
}

func volumeRefusals() []refusal {
	const (
		setTogether = "ownerNode, poolGUID and networkDomain are set together"
		setOnce     = "ownerNode, poolGUID and networkDomain are immutable once set"
		fingerprint = "requestFingerprint must be set for provenance Dynamic and absent for Imported"
	)
	restored := func() *aVolume {
		v := blockVolume()
		v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: "s", UID: uidA}
		return v
	}
	cloned := func() *aVolume {
		v := blockVolume()
		v.Spec.SourceVolume = ptr.To(volumeRef())
		return v
	}
	toNFS := func(v *aVolume) {
		v.Spec.Type, v.Spec.Transport, v.Spec.FSType, v.Spec.VolBlockSize = v1alpha1.VolumeFilesystem, v1alpha1.ProtocolNFS, "", 0
		v.Spec.NFSExport = nfsExport()
	}
	return []refusal{
		keep("spec.capacity", "capacity may only grow, or go back to no less than status.actualCapacity", blockVolume, func(v *aVolume) { v.Spec.Capacity-- }),
		keep("spec", "accessMode is immutable", blockVolume, func(v *aVolume) { v.Spec.AccessMode = v1alpha1.ReadWriteOncePod }),
		refuse("filesystem on a block device with two writers", "spec", "accessMode ReadWriteMany of a block volume needs no fsType: a filesystem on a block device has one writer", blockVolume, func(v *aVolume) {
			v.Spec.AccessMode, v.Spec.FSType = v1alpha1.ReadWriteMany, v1alpha1.Ext4
		}),
		keep("spec", "type is immutable", blockVolume, toNFS),
		keep("spec", "transport is immutable", blockVolume, func(v *aVolume) { v.Spec.Transport = v1alpha1.ProtocolNVMeRDMA }),
		keep("spec", "fsType is immutable", blockVolume, func(v *aVolume) { v.Spec.FSType = v1alpha1.Ext4 }),
		keep("spec", "volBlockSize is immutable", blockVolume, func(v *aVolume) { v.Spec.VolBlockSize = 0 }),
		keep("spec", "provenance is immutable", blockVolume, func(v *aVolume) {
			v.Spec.Provenance, v.Spec.RequestFingerprint = v1alpha1.ProvenanceImported, ""
		}),
		keep("spec", "sourceSnapshot is immutable", restored, func(v *aVolume) { v.Spec.SourceSnapshot = nil }),
		keep("spec", "sourceVolume is immutable", cloned, func(v *aVolume) { v.Spec.SourceVolume.UID = uidA }),
		keep("spec", "topology is immutable", blockVolume, func(v *aVolume) {
			v.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"rack-1"}}
		}),
		keep("spec", "requestFingerprint is immutable", blockVolume, func(v *aVolume) { v.Spec.RequestFingerprint = fingerprintB }),
		keep("spec", setOnce, placedVolume, func(v *aVolume) { v.Spec.OwnerNode = "storage-b" }),
		keep("spec", setOnce, placedVolume, func(v *aVolume) { v.Spec.PoolGUID = "2" }),
		keep("spec", setOnce, placedVolume, func(v *aVolume) { v.Spec.NetworkDomain = "rack-2" }),
		keep("spec", setOnce, placedVolume, func(v *aVolume) { v.Spec.OwnerNode, v.Spec.PoolGUID, v.Spec.NetworkDomain = "", "", "" }),
		refuse("owner without pool", "spec", setTogether, placedVolume, func(v *aVolume) { v.Spec.PoolGUID = "" }),
		refuse("owner without domain", "spec", setTogether, placedVolume, func(v *aVolume) { v.Spec.NetworkDomain = "" }),
		refuse("block over NFS", "spec", typeRule, blockVolume, func(v *aVolume) { v.Spec.Transport = v1alpha1.ProtocolNFS }),
		refuse("filesystem over NVMe", "spec", typeRule, nfsVolume, func(v *aVolume) { v.Spec.Transport = v1alpha1.ProtocolNVMeTCP }),
		refuse("filesystem without export", "spec", exportRule, nfsVolume, func(v *aVolume) { v.Spec.NFSExport = nil }),
		refuse("block with export", "spec", exportRule, blockVolume, func(v *aVolume) { v.Spec.NFSExport = nfsExport() }),
		refuse("filesystem with fsType", "spec", "fsType and volBlockSize need type block", nfsVolume, func(v *aVolume) { v.Spec.FSType = v1alpha1.Ext4 }),
		refuse("filesystem with volBlockSize", "spec", "fsType and volBlockSize need type block", nfsVolume, func(v *aVolume) { v.Spec.VolBlockSize = 4096 }),
		refuse("two sources", "spec", "at most one of sourceSnapshot and sourceVolume may be set", restored, func(v *aVolume) { v.Spec.SourceVolume = ptr.To(volumeRef()) }),
		refuse("a source with namespace", "spec.sourceVolume", namespaceRule, cloned, func(v *aVolume) { v.Spec.SourceVolume.Namespace = "default" }),
		refuse("dynamic without fingerprint", "spec", fingerprint, blockVolume, func(v *aVolume) { v.Spec.RequestFingerprint = "" }),
		refuse("imported with fingerprint", "spec", fingerprint, blockVolume, func(v *aVolume) { v.Spec.Provenance = v1alpha1.ProvenanceImported }),
		refuse("an address that is no network", "spec.nfsExport.cidrs[0]", cidrRule, nfsVolume, func(v *aVolume) { v.Spec.NFSExport.CIDRs[0] = "10.0.0.1" }),
		refuse("an export to nobody", "spec.nfsExport.cidrs", "should have at least 1 items", nfsVolume, func(v *aVolume) { v.Spec.NFSExport.CIDRs = []string{} }),
		refuse("a block size that is no power of two", "spec.volBlockSize", "Unsupported value", blockVolume, func(v *aVolume) { v.Spec.VolBlockSize = 5000 }),
		refuse("unknown compression", "spec.compression", "should match", blockVolume, func(v *aVolume) { v.Spec.Compression = "zstd-20" }),
	}
}

func snapshotRefusals() []refusal {
	const immutable = "the spec of a snapshot is immutable"
	return []refusal{
		keep("spec", immutable, snapshot, func(s *aSnapshot) { s.Spec.Source.UID = uidA }),
		keep("spec", immutable, snapshot, func(s *aSnapshot) { s.Spec.NodeName = "storage-b" }),
		keep("spec", immutable, snapshot, func(s *aSnapshot) { s.Spec.RequestFingerprint = fingerprintB }),
		refuse("a partition without namespace", "spec.source", namespaceRule, snapshot, func(s *aSnapshot) { s.Spec.Source.Kind = v1alpha1.KindNVMePartition }),
		refuse("an unknown kind of source", "spec.source.kind", "Unsupported value", snapshot, func(s *aSnapshot) { s.Spec.Source.Kind = "PersistentVolume" }),
	}
}

func importRefusals() []refusal {
	const immutable = "ownerNode, poolGUID, dataset, type and transport are immutable"
	return []refusal{
		keep("spec", immutable, blockImport, func(i *aImport) { i.Spec.OwnerNode = "storage-b" }),
		keep("spec", immutable, blockImport, func(i *aImport) { i.Spec.PoolGUID = "2" }),
		keep("spec", immutable, blockImport, func(i *aImport) { i.Spec.Dataset = "vms/disk-2" }),
		keep("spec", immutable, blockImport, func(i *aImport) { i.Spec.Transport = v1alpha1.ProtocolNVMeRDMA }),
		keep("spec", immutable, blockImport, func(i *aImport) {
			i.Spec.Type, i.Spec.Transport, i.Spec.NFSExport = v1alpha1.VolumeFilesystem, v1alpha1.ProtocolNFS, nfsExport()
		}),
		keep("spec", "nfsExport is immutable", nfsImport, func(i *aImport) { i.Spec.NFSExport.CIDRs = []string{"10.1.0.0/24"} }),
		refuse("block over NFS", "spec", typeRule, blockImport, func(i *aImport) { i.Spec.Transport = v1alpha1.ProtocolNFS }),
		refuse("filesystem without export", "spec", exportRule, nfsImport, func(i *aImport) { i.Spec.NFSExport = nil }),
		refuse("an address that is no network", "spec.nfsExport.cidrs[1]", cidrRule, nfsImport, func(i *aImport) { i.Spec.NFSExport.CIDRs[1] = "fd00::1" }),
		refuse("a dataset above the pool", "spec.dataset", "should match", blockImport, func(i *aImport) { i.Spec.Dataset = "../other" }),
		refuse("a dataset that is an option", "spec.dataset", "should match", blockImport, func(i *aImport) { i.Spec.Dataset = "-r" }),
		refuse("a snapshot", "spec.dataset", "should match", blockImport, func(i *aImport) { i.Spec.Dataset = "vms/disk@snap" }),
	}
}

func poolAcceptances() []acceptance {
	return []acceptance{
		accept("one pool", storageNode),
		accept("drives alone", storageNode, func(n *aStorageNode) { n.Spec.AuthoritativePoolGUIDs = nil }),
		allow("disabled", storageNode, func(n *aStorageNode) { n.Spec.Enabled = ptr.To(false) }),
		accept("block", blockVolume),
		accept("block over rdma, raw", blockVolume, func(v *aVolume) { v.Spec.Transport, v.Spec.FSType = v1alpha1.ProtocolNVMeRDMA, "" }),
		accept("filesystem", nfsVolume),
		accept("restored", blockVolume, func(v *aVolume) { v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: "s", UID: uidA} }),
		accept("cloned", blockVolume, func(v *aVolume) { v.Spec.SourceVolume = ptr.To(volumeRef()) }),
		accept("imported", blockVolume, func(v *aVolume) { v.Spec.Provenance, v.Spec.RequestFingerprint = v1alpha1.ProvenanceImported, "" }),
		allow("placed once", blockVolume, placeVolume),
		allow("grown", placedVolume, func(v *aVolume) { v.Spec.Capacity += 4 * mib }),
		allow("retained", blockVolume, func(v *aVolume) { v.Spec.DeletionPolicy = v1alpha1.DeletionRetain }),
		accept("of a volume", snapshot),
		accept("of a partition", snapshot, func(s *aSnapshot) { s.Spec.Source = partitionRef() }),
		accept("block", blockImport),
		accept("filesystem", nfsImport),
		allow("given up with its data", blockImport, func(i *aImport) { i.Spec.DeletionPolicy = v1alpha1.DeletionDelete }),
	}
}
