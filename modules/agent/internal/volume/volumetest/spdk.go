package volumetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/pci/pcitest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// NewSPDKNode is NewNode for a node whose volumes are SPDK's. The drive is the
// kernel's at first. Close ends it.
func NewSPDKNode(t testing.TB, name, serial string, size int64) *Node {
	t.Helper()
	n := NewNode(name, serial, size)
	dir, err := os.MkdirTemp("", "spdk") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if n.SPDK, err = spdkfake.Start(filepath.Join(dir, "s")); err != nil {
		t.Fatal(err)
	}
	n.Sysfs = pcitest.New()
	n.Sysfs.Add(n.address, "0x010802", pci.NVMe, "7")
	n.Sysfs.Observe(func() { n.Sites.note() })
	n.SPDK.AddDrive(spdkfake.Drive{Address: n.address, Serial: serial, Model: "Fake", Bytes: uint64(size), Bound: func() bool {
		driver := n.Sysfs.Driver(n.address)
		return driver == pci.VFIO || driver == pci.UIO
	}})
	n.Drive.HeadFrom(func() string {
		if n.SPDK.Stored(n.address) {
			return "SPDKBLOB"
		}
		return ""
	})
	return n
}

// Close ends what runs on the node, and answers which changes of one object of SPDK's
// were in flight together.
func (n *Node) Close() []string {
	if n.SPDK == nil {
		return nil
	}
	for _, c := range n.clients {
		c.Close()
	}
	n.SPDK.Close()
	return n.SPDK.Collisions()
}

// Backend is that of the node's partitions.
func (n *Node) Backend() v1alpha1.TargetBackend {
	if n.SPDK != nil {
		return v1alpha1.BackendSPDK
	}
	return v1alpha1.BackendKernel
}

// dial is a new client of the node's SPDK.
func (n *Node) dial() *rpc.Client {
	c := rpc.New(n.SPDK.Socket())
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clients = append(n.clients, c)
	return c
}

// Target is the node's target for somebody who is not an agent.
func (n *Node) Target() nvmeof.Target {
	if n.SPDK != nil {
		return spdk.New(n.dial())
	}
	return kernel.New(n.Kernel, kernel.WithDebugFS(n.Kernel.Debug()))
}

// SliceSizes are the sizes in bytes of the slices on the drive, by UUID.
func (n *Node) SliceSizes() map[string]int64 {
	out := map[string]int64{}
	if n.SPDK != nil {
		for _, l := range n.SPDK.Lvols() {
			out[l.UUID] = int64(l.Bytes)
		}
		return out
	}
	for _, p := range n.Drive.Entries() {
		out[strings.ToLower(p.UUID)] = p.Size * n.Drive.Inventory().BlockBytes
	}
	return out
}

// listener is where the node's volumes are served.
var listener = nvmeof.Listener{Transport: nvmeof.TCP, Address: netip.MustParseAddr("10.0.0.1"), Port: 4420}

// Host is a host that is connected to a volume.
type Host interface {
	// Size is what the host sees of the namespace, in bytes.
	Size(nsid uint32) (int64, error)
	// Write writes, and fails once the target has ended the connection.
	Write(nsid uint32, data string) error
}

// Connect connects a consumer node to the volume.
func (n *Node) Connect(consumer string, s v1alpha1.Slice) (Host, error) {
	if n.SPDK != nil {
		return n.SPDK.Connect(identity.HostNQN(consumer), NQN(s), listener)
	}
	return n.Kernel.Connect(identity.HostNQN(consumer), NQN(s), listener)
}

// Occupy has another program listen where the volumes are served, or ends that.
func (n *Node) Occupy(on bool) {
	address, service := listener.Address.String(), fmt.Sprint(listener.Port)
	switch {
	case n.SPDK != nil && on:
		n.SPDK.Occupy("TCP", address, service)
	case n.SPDK != nil:
		n.SPDK.Vacate("TCP", address, service)
	case on:
		n.Kernel.Occupy(listener)
	default:
		n.Kernel.Vacate(listener)
	}
}

// call changes SPDK as somebody who is not an agent does.
func (n *Node) call(method string, params map[string]any) error {
	c := rpc.New(n.SPDK.Socket())
	defer c.Close()
	return c.Call(context.Background(), method, params, nil)
}

// AllowHost puts a host on the volume's list behind the agent's back.
func (n *Node) AllowHost(s v1alpha1.Slice, host string) error {
	if n.SPDK != nil {
		return n.call("nvmf_subsystem_add_host", map[string]any{"nqn": NQN(s), "host": host})
	}
	if err := n.Kernel.Mkdir("hosts/" + host); err != nil {
		return err
	}
	return n.Kernel.Symlink("hosts/"+host, "subsystems/"+NQN(s)+"/allowed_hosts/"+host)
}

// AllowAnyHost opens the volume to everybody instead of this host.
func (n *Node) AllowAnyHost(s v1alpha1.Slice, host string) error {
	if n.SPDK != nil {
		return n.call("nvmf_subsystem_allow_any_host", map[string]any{"nqn": NQN(s), "allow_any_host": true})
	}
	if err := n.Kernel.Remove("subsystems/" + NQN(s) + "/allowed_hosts/" + host); err != nil {
		return err
	}
	return n.Kernel.WriteFile("subsystems/"+NQN(s)+"/attr_allow_any_host", []byte("1"))
}

// SpoilNamespace gives the volume's namespace another identity. The kernel's is
// disabled too, and SPDK listens where nobody asked for.
func (n *Node) SpoilNamespace(s v1alpha1.Slice) error {
	if n.SPDK != nil {
		bdev := ""
		for _, l := range n.SPDK.Lvols() {
			if l.Name == identity.ExternalID(string(s.GetUID())) {
				bdev = l.UUID
			}
		}
		namespace := map[string]any{"nsid": identity.NSID, "bdev_name": bdev, "uuid": identity.NamespaceUUID("other")}
		address := map[string]any{"trtype": "TCP", "adrfam": "IPv4", "traddr": listener.Address.String(), "trsvcid": "4499"}
		return errors.Join(n.call("nvmf_subsystem_remove_ns", map[string]any{"nqn": NQN(s), "nsid": identity.NSID}),
			n.call("nvmf_subsystem_add_ns", map[string]any{"nqn": NQN(s), "namespace": namespace}),
			n.call("nvmf_subsystem_add_listener", map[string]any{"nqn": NQN(s), "listen_address": address}))
	}
	ns := "subsystems/" + NQN(s) + "/namespaces/1/"
	if err := n.Kernel.WriteFile(ns+"enable", []byte("0")); err != nil {
		return err
	}
	return n.Kernel.WriteFile(ns+"device_uuid", []byte(identity.NamespaceUUID("other")))
}

// UsesNow is what inventory.Reader.UsesNow answers.
func (n *Node) UsesNow(device string) ([]inventory.Use, error) {
	if uses, err := n.Uses(device); err != nil || len(uses) > 0 {
		return uses, err
	}
	return n.Drive.UsesNow(device)
}

// OtherNamespaces is what inventory.Reader.OtherNamespaces answers.
func (n *Node) OtherNamespaces(string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.others, nil
}

// AddNamespace gives the drive another namespace than 1.
func (n *Node) AddNamespace(device string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.others = append(n.others, device)
}

// Denied is what inventory.Reader.Denied answers.
func (*Node) Denied(string, string) bool { return false }
