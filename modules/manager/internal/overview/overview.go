package overview

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/drive"
	"github.com/distort-io/distort/modules/manager/internal/explain"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// Space is what there is and what is left, in bytes.
type Space struct {
	Total int64 `json:"totalBytes"`
	// Reserved is the sum of what is placed or about to be, terminating volumes
	// included.
	Reserved int64 `json:"reservedBytes"`
	// Free is what placement can still give; 0 for a drive that is not claimed.
	Free int64 `json:"freeBytes"`
	// Largest is the largest volume that fits in one piece, as the agent last saw
	// it; absent when unknown.
	Largest *int64 `json:"largestBytes,omitempty"`
}

// Tree is the whole picture. Its space counts claimed drives alone.
type Tree struct {
	Space
	Nodes []Node `json:"nodes"`
	// Unclaimed are the bytes of drives that nothing has claimed.
	Unclaimed  int64                `json:"unclaimedBytes"`
	Unreadable []explain.Unreadable `json:"unreadable,omitempty"`
}

// Node is a storage node.
type Node struct {
	Name string `json:"name"`
	// State is Ready, or the reason why not.
	State    string  `json:"state"`
	Domain   string  `json:"networkDomain,omitempty"`
	Cordoned bool    `json:"cordoned,omitempty"`
	Drives   []Drive `json:"drives"`
	Pools    []Pool  `json:"pools,omitempty"`
	Space
}

// Drive is a drive of a node.
type Drive struct {
	Serial string `json:"serial"`
	Device string `json:"device"`
	Model  string `json:"model,omitempty"`
	// State is Claimed, Available, or the reason why it cannot be used.
	State string `json:"state"`
	// Claim is "namespace/name" of the NVMeDeviceClaim.
	Claim    string   `json:"claim,omitempty"`
	Backend  string   `json:"backend,omitempty"`
	Cordoned bool     `json:"cordoned,omitempty"`
	Volumes  []Volume `json:"volumes,omitempty"`
	Space
}

// Pool is a ZFS pool of a node.
type Pool struct {
	Name  string `json:"name"`
	GUID  string `json:"guid"`
	Ready bool   `json:"ready"`
	Free  int64  `json:"freeBytes"`
}

// Volume is what is placed on a drive.
type Volume struct {
	Partition string `json:"partition"`
	// Claim is "namespace/name" of the PersistentVolumeClaim.
	Claim    string `json:"claim,omitempty"`
	Bytes    int64  `json:"bytes"`
	Deleting bool   `json:"deleting,omitempty"`
}

// Build makes the tree.
func Build(i *gather.Inventory) Tree {
	nodes := map[string]*Node{}
	node := func(name string) *Node {
		if nodes[name] == nil {
			nodes[name] = &Node{Name: name, State: "no agent", Drives: []Drive{}}
		}
		return nodes[name]
	}
	for j := range i.Targets {
		node(i.Targets[j].Name).State = stateOf(&i.Targets[j])
	}
	for j := range i.Owners {
		describeOwner(node(i.Owners[j].Name), &i.Owners[j])
	}
	tree := Tree{Nodes: []Node{}, Unreadable: i.Unreadable}
	for j := range i.Devices {
		d := describe(i, &i.Devices[j])
		n := node(i.Devices[j].Spec.NodeName)
		n.Drives = append(n.Drives, d)
		if d.Claim == "" {
			tree.Unclaimed += d.Total
			continue
		}
		n.add(d.Space)
		tree.add(d.Space)
	}
	for _, n := range nodes {
		slices.SortFunc(n.Drives, func(a, b Drive) int { return cmp.Compare(a.Serial, b.Serial) })
		tree.Nodes = append(tree.Nodes, *n)
	}
	slices.SortFunc(tree.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return tree
}

// add counts a drive. The largest piece of several drives is on one of them.
func (s *Space) add(d Space) {
	s.Total += d.Total
	s.Reserved += d.Reserved
	s.Free += d.Free
	if d.Largest != nil && (s.Largest == nil || *d.Largest > *s.Largest) {
		s.Largest = d.Largest
	}
}

func stateOf(target *v1alpha1.RDMAStorageNode) string {
	c := meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		return "Unknown"
	case c.Status == metav1.ConditionTrue:
		return "Ready"
	}
	return c.Reason
}

func describeOwner(n *Node, owner *v1alpha1.StorageNode) {
	n.Domain = string(owner.Spec.NetworkDomain)
	n.Cordoned = v1alpha1.Cordoned(owner)
	if n.State == "Ready" && owner.Spec.Enabled != nil && !*owner.Spec.Enabled {
		n.State = v1alpha1.ReasonDisabled
	}
	for _, p := range owner.Status.Pools {
		n.Pools = append(n.Pools, Pool{Name: p.Name, GUID: string(p.GUID), Ready: p.Ready, Free: p.FreeBytes})
	}
}

func describe(i *gather.Inventory, device *v1alpha1.NVMeDevice) Drive {
	d := Drive{
		Serial: device.Spec.SerialNumber, Device: device.Name, Model: device.Spec.Model, State: string(device.Status.State),
		Backend: string(device.Status.ActiveBackend), Cordoned: v1alpha1.Cordoned(device), Space: Space{Total: device.Spec.TotalCapacity},
	}
	if reason, _, ok := drive.Unusable(device); !ok {
		d.State = reason
	}
	// A reservation is written before its partition is placed.
	reserved := map[types.UID]int64{}
	for _, r := range device.Status.Reservations {
		reserved[r.UID] = r.Size
	}
	for j := range i.Partitions {
		p := &i.Partitions[j]
		if p.Spec.NodeName == device.Spec.NodeName && p.Spec.ParentDeviceSerialNumber == device.Spec.SerialNumber {
			v := volumeOf(i, p)
			d.Volumes = append(d.Volumes, v)
			reserved[p.UID] = max(reserved[p.UID], v.Bytes)
		}
	}
	for _, bytes := range reserved {
		d.Reserved += bytes
	}
	slices.SortFunc(d.Volumes, func(a, b Volume) int { return cmp.Compare(a.Partition, b.Partition) })
	if ref := device.Status.ClaimRef; ref != nil {
		d.Claim = ref.Namespace + "/" + ref.Name
		d.Free = max(d.Total-d.Reserved, 0)
		if largest := device.Status.LargestFreeExtent; largest > 0 {
			d.Largest = &largest
		}
	}
	return d
}

func volumeOf(i *gather.Inventory, p *v1alpha1.NVMePartition) Volume {
	bytes := max(p.Spec.Size, p.Status.AllocatedCapacity)
	if rounded, err := capacity.RoundUp(bytes); err == nil {
		bytes = rounded
	}
	v := Volume{Partition: p.Namespace + "/" + p.Name, Bytes: bytes, Deleting: p.DeletionTimestamp != nil}
	if claim, ok := i.ClaimOf(p); ok {
		v.Claim = claim.String()
	}
	return v
}
