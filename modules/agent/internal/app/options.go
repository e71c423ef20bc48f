package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/distort-io/distort/modules/agent/internal/pci"
	"github.com/distort-io/distort/modules/agent/internal/spdkdrive"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof/spdk/supervisor"
)

// Options are the settings of distort-agent, a flag each.
type Options struct {
	// NodeName is the Kubernetes node that the agent runs on.
	NodeName string
	// Namespace holds the driver's objects: partitions, attachments, Leases.
	Namespace string
	// Kubeconfig is a file; empty means the pod's own service account, or KUBECONFIG.
	Kubeconfig string
	// KubeAPIQPS and KubeAPIBurst limit the requests to the API server.
	KubeAPIQPS   float32
	KubeAPIBurst int

	// ConfigfsRoot, SysfsRoot, ProcfsRoot and DevRoot are where the host's file
	// systems are mounted.
	ConfigfsRoot, SysfsRoot, ProcfsRoot, DevRoot string
	// LoadModules loads the kernel's target modules at the start.
	LoadModules bool

	// SPDK is the target of backend spdk; without a socket the node has none.
	SPDK SPDKOptions

	// TCPInterface is the network interface that NVMe/TCP targets listen on; empty
	// means TCPAddresses.
	TCPInterface string
	TCPAddresses []string
	// TCPPort and RDMAPort are the ports of the targets.
	TCPPort, RDMAPort int32
	// DeviceDeny lists drives that are never touched, by serial number or PCI address.
	DeviceDeny []string
	// ScanInterval and CheckInterval are the longest times between two looks at the
	// hardware and at the exports; the shortest are half of them.
	ScanInterval, CheckInterval time.Duration

	// HealthProbeBindAddress serves /healthz and /readyz; "0" turns it off.
	HealthProbeBindAddress string
	// MetricsBindAddress serves /metrics; "0" turns it off.
	MetricsBindAddress string
	// LogLevel is the least level that is logged.
	LogLevel slog.Level
}

// SPDKOptions are the settings of backend spdk.
type SPDKOptions struct {
	// Socket is that of the target's RPC server.
	Socket string
	// Target is the path of nvmf_tgt, which the agent then starts and keeps running;
	// empty: somebody else does.
	Target string
	// Plan is what a target gets that the agent starts.
	Plan spdkdrive.Plan
	// InterruptMode has that target wait for events instead of polling.
	InterruptMode bool
}

// modules are the kernel modules of the targets.
func (o Options) modules() []string {
	all := []string{"nvmet", "nvmet-tcp", "nvmet-rdma"}
	if o.SPDK.Socket != "" {
		all = append(all, pci.VFIO, pci.UIO)
	}
	return all
}

// defaultSPDKSocket is that of a target that the agent starts.
const defaultSPDKSocket = "/run/distort-spdk/spdk.sock"

// Defaults are the options without flags. The environment variables NODE_NAME,
// POD_NAMESPACE and NODE_IP, which a pod has from its fieldRefs, name node,
// namespace and address.
func Defaults(getenv func(string) string) Options {
	o := Options{
		NodeName: getenv("NODE_NAME"), Namespace: getenv("POD_NAMESPACE"), KubeAPIQPS: 50, KubeAPIBurst: 100,
		ConfigfsRoot: "/sys/kernel/config", SysfsRoot: "/sys", ProcfsRoot: "/proc", DevRoot: "/dev",
		TCPPort: 4420, RDMAPort: 4421, ScanInterval: time.Minute, CheckInterval: time.Minute,
		HealthProbeBindAddress: ":8081", MetricsBindAddress: "0",
		SPDK: SPDKOptions{
			Socket: getenv("DISTORT_SPDK_SOCKET"), Target: getenv("DISTORT_SPDK_TARGET"),
			Plan: spdkdrive.Plan{CoreMask: "0x1", MemoryMiB: 512, SmallBuffers: 8192, LargeBuffers: 1024, Queues: 576},
		},
	}
	if o.Namespace == "" {
		o.Namespace = v1alpha1.DefaultNamespace
	}
	if ip := getenv("NODE_IP"); ip != "" {
		o.TCPAddresses = []string{ip}
	}
	return o
}

// Parse reads the command line.
func Parse(args []string, getenv func(string) string) (Options, error) {
	o := Defaults(getenv)
	flags := pflag.NewFlagSet("distort-agent", pflag.ContinueOnError)
	flags.StringVar(&o.NodeName, "node-name", o.NodeName, "Kubernetes node that the agent runs on (NODE_NAME)")
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the driver's objects (POD_NAMESPACE)")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file; without it KUBECONFIG or the pod's service account")
	flags.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "requests per second to the API server")
	flags.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "requests to the API server that may come at once")
	flags.StringVar(&o.ConfigfsRoot, "configfs-root", o.ConfigfsRoot, "where the host's configfs is mounted; nvmet is below it")
	flags.StringVar(&o.SysfsRoot, "sysfs-root", o.SysfsRoot, "where the host's sysfs is mounted")
	flags.StringVar(&o.ProcfsRoot, "procfs-root", o.ProcfsRoot, "where the host's procfs is mounted: its process 1 has the host's mounts")
	flags.StringVar(&o.DevRoot, "dev-root", o.DevRoot, "where the host's device nodes are; the kernel must know them under this path")
	flags.BoolVar(&o.LoadModules, "load-modules", o.LoadModules, "load nvmet, nvmet-tcp and nvmet-rdma with modprobe at the start")
	flags.StringVar(&o.TCPInterface, "tcp-interface", o.TCPInterface, "network interface whose addresses NVMe/TCP targets listen on")
	flags.StringSliceVar(&o.TCPAddresses, "tcp-address", o.TCPAddresses, "address that NVMe/TCP targets listen on, instead of --tcp-interface; may be given again (NODE_IP)")
	flags.Int32Var(&o.TCPPort, "tcp-port", o.TCPPort, "port of NVMe/TCP targets")
	flags.Int32Var(&o.RDMAPort, "rdma-port", o.RDMAPort, "port of NVMe/RDMA targets")
	flags.StringSliceVar(&o.DeviceDeny, "device-deny", o.DeviceDeny, "drive that is never touched, by serial number or PCI address; may be given again")
	flags.DurationVar(&o.ScanInterval, "scan-interval", o.ScanInterval, "longest time between two scans of the hardware; the shortest is half of it")
	flags.DurationVar(&o.CheckInterval, "check-interval", o.CheckInterval, "longest time between two checks of the exports; the shortest is half of it")
	flags.StringVar(&o.SPDK.Socket, "spdk-socket", o.SPDK.Socket, "RPC socket of an SPDK target, which then serves volumes of backend spdk (DISTORT_SPDK_SOCKET); with --spdk-target "+defaultSPDKSocket+" unless given")
	flags.StringVar(&o.SPDK.Target, "spdk-target", o.SPDK.Target, "path of an nvmf_tgt that the agent starts and keeps running (DISTORT_SPDK_TARGET)")
	flags.StringVar(&o.SPDK.Plan.CoreMask, "spdk-core-mask", o.SPDK.Plan.CoreMask, "CPUs of that target, in hexadecimal")
	flags.IntVar(&o.SPDK.Plan.MemoryMiB, "spdk-memory", o.SPDK.Plan.MemoryMiB, "MiB of huge pages that it takes")
	flags.IntVar(&o.SPDK.Plan.SmallBuffers, "spdk-small-buffers", o.SPDK.Plan.SmallBuffers, "its small I/O buffers, of 8 KiB")
	flags.IntVar(&o.SPDK.Plan.LargeBuffers, "spdk-large-buffers", o.SPDK.Plan.LargeBuffers, "its large I/O buffers, of 132 KiB")
	flags.IntVar(&o.SPDK.Plan.Queues, "spdk-queues", o.SPDK.Plan.Queues, "queues of all hosts that are expected, the admin queues included; a target whose I/O buffers would not do gets no volumes")
	flags.BoolVar(&o.SPDK.InterruptMode, "spdk-interrupt-mode", false, "have it wait for events instead of polling")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress, "address of /healthz and /readyz, 0 for none")
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress, "address of /metrics, 0 for none")
	flags.TextVar(&o.LogLevel, "log-level", o.LogLevel, "least level that is logged: DEBUG, INFO, WARN or ERROR")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q: distort-agent takes flags alone", flags.Arg(0))
	}
	if o.SPDK.Target != "" && o.SPDK.Socket == "" {
		o.SPDK.Socket = defaultSPDKSocket
	}
	return o, errors.Join(o.Validate(), refuseUnused(flags, o))
}

// refuseUnused refuses what is said of a target that there is none of, or of one that
// somebody else runs and only the agent's own can have.
func refuseUnused(flags *pflag.FlagSet, o Options) error {
	var errs []error
	for _, name := range []string{"spdk-core-mask", "spdk-memory", "spdk-small-buffers", "spdk-large-buffers", "spdk-interrupt-mode"} {
		if flags.Changed(name) && o.SPDK.Target == "" {
			errs = append(errs, fmt.Errorf("--%s %s: %w", name, flags.Lookup(name).Value, errManagedOnly))
		}
	}
	if flags.Changed("spdk-queues") && o.SPDK.Socket == "" {
		errs = append(errs, fmt.Errorf("--spdk-queues %d: needs --spdk-socket or --spdk-target", o.SPDK.Plan.Queues))
	}
	return errors.Join(errs...)
}

// minInterval keeps the periodic looks from becoming a load of their own.
const minInterval = time.Second

// Validate tells what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if problems := validation.IsDNS1123Subdomain(o.NodeName); len(problems) > 0 {
		refuse("--node-name %q: %s", o.NodeName, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		refuse("--namespace %q: %s", o.Namespace, strings.Join(problems, "; "))
	}
	if o.KubeAPIQPS <= 0 || o.KubeAPIBurst <= 0 {
		refuse("--kube-api-qps %v and --kube-api-burst %d: must be above 0", o.KubeAPIQPS, o.KubeAPIBurst)
	}
	for flag, path := range map[string]string{
		"configfs-root": o.ConfigfsRoot, "sysfs-root": o.SysfsRoot, "procfs-root": o.ProcfsRoot, "dev-root": o.DevRoot,
	} {
		if !filepath.IsAbs(path) {
			refuse("--%s %q: must be an absolute path", flag, path)
		}
	}
	errs = append(errs, o.SPDK.validate()...)
	for flag, port := range map[string]int32{"tcp-port": o.TCPPort, "rdma-port": o.RDMAPort} {
		if port < 1 || port > 65535 {
			refuse("--%s %d: must be from 1 to 65535", flag, port)
		}
	}
	if o.TCPPort == o.RDMAPort {
		// An RDMA device over Ethernet may listen on the same address.
		refuse("--tcp-port and --rdma-port are both %d: they must differ", o.TCPPort)
	}
	for flag, interval := range map[string]time.Duration{"scan-interval": o.ScanInterval, "check-interval": o.CheckInterval} {
		if interval < minInterval {
			refuse("--%s %s: must be at least %s", flag, interval, minInterval)
		}
	}
	return errors.Join(errs...)
}

// maxSocket is the longest path of a Unix socket.
const maxSocket = 107

func (o SPDKOptions) validate() []error {
	var errs []error
	if o.Socket != "" && (!filepath.IsAbs(o.Socket) || len(o.Socket) > maxSocket) {
		errs = append(errs, fmt.Errorf("--spdk-socket %q: must be an absolute path of at most %d bytes", o.Socket, maxSocket))
	}
	count := func(flag string, n int) {
		if n < 1 || n > 1<<20 {
			errs = append(errs, fmt.Errorf("--%s %d: must be from 1 to %d", flag, n, 1<<20))
		}
	}
	if o.Socket != "" {
		count("spdk-queues", o.Plan.Queues)
	}
	if o.Target == "" {
		return errs
	}
	if !filepath.IsAbs(o.Target) {
		errs = append(errs, fmt.Errorf("--spdk-target %q: must be an absolute path", o.Target))
	}
	if _, err := supervisor.Cores(o.Plan.CoreMask); err != nil {
		errs = append(errs, fmt.Errorf("--spdk-core-mask %q: must be a hexadecimal number above zero, such as 0x3", o.Plan.CoreMask))
	}
	count("spdk-memory", o.Plan.MemoryMiB)
	count("spdk-small-buffers", o.Plan.SmallBuffers)
	count("spdk-large-buffers", o.Plan.LargeBuffers)
	return errs
}
