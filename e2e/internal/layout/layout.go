// Package layout is the plan of the lab: which guests there are, their
// addresses, their drives. Everything else derives from it.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Addresses of the lab's network. It is a network namespace of its own, so they
// cannot collide with the host's.
const (
	// HostAddress is where the control plane listens.
	HostAddress = "10.77.0.1"
	// PrefixLength of the network all guests are in.
	PrefixLength = 24
	// ServiceCIDR and ServiceVIP are those of Kubernetes services; only the
	// API server's own service is served (see package guest).
	ServiceCIDR = "10.96.0.0/16"
	ServiceVIP  = "10.96.0.1"
	// APIPort is the API server's.
	APIPort = 6443
	// RoCEPort is the UDP port of RoCEv2, to which all of an RDMA port's packets go.
	RoCEPort = "4791"
	// TracesPort and TracesPortGRPC take the product's spans over HTTP and gRPC.
	TracesPort     = 4318
	TracesPortGRPC = 4317
)

// Role is what a guest is for.
type Role string

// Roles.
const (
	// Storage guests have NVMe drives and the kernel's NVMe-oF target.
	Storage Role = "storage"
	// Consumer guests run pods that use volumes.
	Consumer Role = "consumer"
)

// Labels of nodes.
const (
	// RoleLabel holds the role.
	RoleLabel = "lab.distort.io/role"
	// StorageNodeLabel is the one by which the chart finds storage nodes.
	StorageNodeLabel = "storage.distort.io/storage-node"
)

// Node is one guest.
type Node struct {
	Name string
	Role Role
	// Number is unique among the guests; addresses derive from it.
	Number int
	// Drives are the serials of its emulated NVMe drives.
	Drives []string
	// MemoryMiB is the guest's memory.
	MemoryMiB int
}

// DriveBytes is the size of an emulated drive; the file behind it is sparse.
const DriveBytes = 4 << 30

// Nodes returns the guests of the lab.
func Nodes() []Node {
	return []Node{
		{Name: "storage", Role: Storage, Number: 0, MemoryMiB: 1536, Drives: []string{"DISTORT0001", "DISTORT0002", "DISTORT0003"}},
		{Name: "consumer-1", Role: Consumer, Number: 1, MemoryMiB: 1536},
		{Name: "consumer-2", Role: Consumer, Number: 2, MemoryMiB: 1536},
	}
}

// Find returns the guest with that name.
func Find(name string) (Node, error) {
	names := make([]string, 0, len(Nodes()))
	for _, node := range Nodes() {
		if node.Name == name {
			return node, nil
		}
		names = append(names, node.Name)
	}
	return Node{}, fmt.Errorf("no guest %q; there are %v", name, names)
}

// Address is the guest's address.
func (n Node) Address() string { return fmt.Sprintf("10.77.0.%d", 10+n.Number) }

// MAC is its Ethernet address.
func (n Node) MAC() string { return fmt.Sprintf("52:54:00:77:00:%02x", 0x10+n.Number) }

// PodCIDR is the network of the pods on it.
func (n Node) PodCIDR() string { return fmt.Sprintf("10.88.%d.0/24", n.Number) }

// MachineID is 32 hexadecimal digits that stay the same however often the guest
// is made anew, and differ between guests.
func (n Node) MachineID() string {
	sum := sha256.Sum256([]byte("distort lab machine " + n.Name))
	return hex.EncodeToString(sum[:16])
}

// HostID is the guest's NVMe host identifier, a UUID. Guests are clones of one
// disk; with equal identifiers a target would take them for one host.
func (n Node) HostID() string {
	id := n.MachineID()
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", id[:8], id[8:12], id[13:16], id[17:20], id[20:32])
}

// APIServer is the URL of the API server inside the lab's network.
func APIServer() string { return fmt.Sprintf("https://%s:%d", HostAddress, APIPort) }

// Drives returns the serials of all emulated drives.
func Drives() []string {
	var serials []string
	for _, node := range Nodes() {
		serials = append(serials, node.Drives...)
	}
	return serials
}

// Consumers returns the names of the two consumers.
func Consumers() [2]string { return [2]string{"consumer-1", "consumer-2"} }
