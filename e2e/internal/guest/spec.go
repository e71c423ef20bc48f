// Package guest describes and runs the lab's machines.
package guest

import (
	"fmt"
	"strings"

	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/layout"
)

// Serials of a guest's virtio disks.
const (
	serialRoot   = "lab-root"
	serialLab    = "lab-programs"
	serialImages = "lab-images"
)

// Paths of a node's configuration.
const (
	kubeconfigPath   = "/etc/kubernetes/kubelet.kubeconfig"
	clientCAPath     = "/etc/kubernetes/ca.crt"
	kubeletConfig    = "/var/lib/kubelet/config.yaml"
	containerdConfig = "/etc/containerd/config.toml"
	containerdSocket = "/run/containerd/containerd.sock"
)

// Modules every node loads: initiator, soft-RoCE (crc32_generic first, or the
// RDMA link is refused), file systems, pod networks.
var nodeModules = []string{
	"overlay", "bridge", "br_netfilter", "veth", "nf_tables", "nft_compat", "nft_chain_nat", "xt_MASQUERADE", "xt_comment",
	"xt_conntrack", "xt_mark", "xt_addrtype", "xt_nat", "xt_tcpudp",
	"crc32_generic", "rdma_rxe", "nvme-tcp", "nvme-rdma", "configfs", "ext4", "xfs", "loop",
}

// Modules of a storage node.
var targetModules = []string{"nvme", "nvmet", "nvmet-tcp", "nvmet-rdma"}

// SpecInput is what a guest's spec depends on beside its place in the lab.
type SpecInput struct {
	// Kubeconfig is kubelet's.
	Kubeconfig string
	// ClientCA authenticates those who call kubelet.
	ClientCA string
	// PauseImage holds a pod's namespaces.
	PauseImage string
}

// Spec tells a guest what to be: a Kubernetes node with containerd and kubelet.
func Spec(node layout.Node, all []layout.Node, in SpecInput) guestspec.Spec {
	spec := guestspec.Spec{
		Name: node.Name,
		Root: serialRoot,
		Mounts: []guestspec.Mount{
			{Serial: serialLab, Target: "/opt/lab", ReadOnly: true},
			{Serial: serialImages, Target: "/var/lib/containerd"},
		},
		Binds:   []guestspec.Bind{{Source: "/opt/lab/modules", Target: "/lib/modules"}},
		Modules: nodeModules,
		Sysctls: []guestspec.Sysctl{
			{Name: "net/ipv4/ip_forward", Value: "1"},
			// Packets between pods of one node are switched, not filtered.
			{Name: "net/bridge/bridge-nf-call-iptables", Value: "1"},
		},
		Files:    files(node, all, in),
		Setup:    setup(),
		Services: services(node),
	}
	if node.Role == layout.Storage {
		spec.Modules = append(append([]string(nil), nodeModules...), targetModules...)
	}
	return spec
}

func files(node layout.Node, all []layout.Node, in SpecInput) []guestspec.File {
	return []guestspec.File{
		{Path: "/etc/machine-id", Mode: 0o444, Content: node.MachineID() + "\n"},
		{Path: "/etc/hostname", Mode: 0o644, Content: node.Name + "\n"},
		{Path: "/etc/hosts", Mode: 0o644, Content: "127.0.0.1 localhost\n" + node.Address() + " " + node.Name + "\n"},
		{Path: "/etc/resolv.conf", Mode: 0o644, Content: "# the lab has no name server\n"},
		{Path: "/etc/nvme/hostid", Mode: 0o644, Content: node.HostID() + "\n"},
		{Path: "/etc/nvme/hostnqn", Mode: 0o644, Content: "nqn.2014-08.org.nvmexpress:uuid:" + node.HostID() + "\n"},
		{Path: kubeconfigPath, Mode: 0o600, Content: in.Kubeconfig},
		{Path: clientCAPath, Mode: 0o644, Content: in.ClientCA},
		{Path: kubeletConfig, Mode: 0o600, Content: kubeletText},
		{Path: containerdConfig, Mode: 0o644, Content: fmt.Sprintf(containerdText, in.PauseImage)},
		{Path: ipBatch, Mode: 0o644, Content: ipCommands(node, all)},
		{Path: "/etc/cni/net.d/10-lab.conflist", Mode: 0o644, Content: fmt.Sprintf(cniText, node.PodCIDR())},
	}
}

// ipBatch holds the commands of ip: one process for all of them.
const ipBatch = guestspec.RunDir + "/ip.batch"

// ipCommands set up the guest's interface, and routes to the other guests' pods.
func ipCommands(node layout.Node, all []layout.Node) string {
	commands := []string{
		"link set lo up",
		"link set eth0 up",
		fmt.Sprintf("addr add %s/%d dev eth0", node.Address(), layout.PrefixLength),
		"route add default via " + layout.HostAddress,
	}
	for _, other := range all {
		if other.Name != node.Name {
			commands = append(commands, "route add "+other.PodCIDR()+" via "+other.Address())
		}
	}
	return strings.Join(commands, "\n") + "\n"
}

// setup are the commands that make a guest a node, in order. There is no
// kube-proxy: two rules send the API server's service address where it listens.
func setup() [][]string {
	commands := [][]string{{"ip", "-batch", ipBatch}}
	for _, chain := range []string{"OUTPUT", "PREROUTING"} {
		commands = append(commands, []string{"iptables", "-w", "-t", "nat", "-A", chain, "-d", layout.ServiceVIP, "-p", "tcp", "--dport", "443",
			"-j", "DNAT", "--to-destination", fmt.Sprintf("%s:%d", layout.HostAddress, layout.APIPort)})
	}
	return append(commands,
		[]string{"rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "eth0"},
		[]string{"mount", "-t", "configfs", "configfs", "/sys/kernel/config"},
		[]string{"/lib/systemd/systemd-udevd", "--daemon"},
		[]string{"udevadm", "trigger", "--action=add", "--subsystem-match=block", "--subsystem-match=nvme"},
	)
}

// cheapRuntime spares an emulated CPU what Go's runtime does for latency:
// preemption by signals, and collection of a heap that is small anyway.
var cheapRuntime = []string{"GODEBUG=asyncpreemptoff=1", "GOGC=400"}

func services(node layout.Node) []guestspec.Service {
	labels := layout.RoleLabel + "=" + string(node.Role)
	if node.Role == layout.Storage {
		labels += "," + layout.StorageNodeLabel + "=true"
	}
	return []guestspec.Service{
		{Name: "containerd", Env: cheapRuntime, Args: []string{"/opt/lab/bin/containerd", "--config", containerdConfig}},
		{Name: "kubelet", Env: cheapRuntime, After: containerdSocket, Args: []string{"/opt/lab/bin/kubelet",
			"--config=" + kubeletConfig, "--kubeconfig=" + kubeconfigPath,
			"--hostname-override=" + node.Name, "--node-ip=" + node.Address(), "--node-labels=" + labels, "--housekeeping-interval=60s", "--v=2"}},
	}
}
