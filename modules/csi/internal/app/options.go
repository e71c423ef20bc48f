package app

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/rpc"
)

// Mode is which CSI services a process serves.
type Mode string

// Modes.
const (
	// ModeController serves Identity and Controller, beside the sidecars.
	ModeController Mode = "controller"
	// ModeNode serves Identity and Node, for kubelet.
	ModeNode Mode = "node"
	// ModeAll serves all three, for tests and single-node trials.
	ModeAll Mode = "all"
)

func (m Mode) controller() bool { return m == ModeController || m == ModeAll }
func (m Mode) node() bool       { return m == ModeNode || m == ModeAll }

const defaultControllerSocket = "/run/distort/csi/csi.sock"

// defaultMaxVolumes per node: each has a controller with up to 9 queues, and more
// volumes than kubelet takes pods by default (110) are a mistake more often than a
// need.
const defaultMaxVolumes = 128

// Options are the flags.
type Options struct {
	Mode                 Mode
	Endpoint             string
	NodeID               string
	KubeletDir           string
	RegistrationDir      string
	Namespace            string
	DefaultBackend       string
	TopologyKey          string
	NetworkDomain        string
	DefaultNetworkDomain string
	HealthAddress        string
	MetricsAddress       string
	Kubeconfig           string
	LogLevel             slog.Level
	LoadModules          bool
	MaxVolumes           int64
	MaxConnects          int
	ShutdownMarker       string
	ShutdownPatience     time.Duration
}

// AddFlags declares the flags; getenv provides the defaults that Kubernetes'
// downward API sets.
func (o *Options) AddFlags(f *pflag.FlagSet, getenv func(string) string) {
	or := func(value, fallback string) string {
		if value == "" {
			return fallback
		}
		return value
	}
	f.StringVar((*string)(&o.Mode), "mode", string(ModeAll), "which services to serve: controller, node or all")
	f.StringVar(&o.Endpoint, "endpoint", "", "CSI socket as unix:///path, in a directory that is made or closed to others (0700); default unix://"+defaultControllerSocket+" for mode controller, unix://<kubelet-dir>/plugins/"+v1alpha1.DriverName+"/csi.sock else")
	f.StringVar(&o.NodeID, "node-id", getenv("NODE_NAME"), "name of this Kubernetes node; default $NODE_NAME (modes node and all)")
	f.StringVar(&o.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "kubelet's root directory, mounted at the same path (modes node and all)")
	f.StringVar(&o.RegistrationDir, "registration-dir", "", "kubelet's plugin registry directory; default <kubelet-dir>/plugins_registry; \"none\" does not register (modes node and all)")
	f.StringVar(&o.Namespace, "namespace", or(getenv("POD_NAMESPACE"), v1alpha1.DefaultNamespace), "namespace of the volume objects; default $POD_NAMESPACE")
	f.StringVar(&o.DefaultBackend, "default-backend", string(v1alpha1.BackendKernel), "target-backend of a StorageClass that names none")
	f.StringVar(&o.TopologyKey, "topology-key", v1alpha1.TopologyKey, "node label and CSI topology segment that hold a node's network domain")
	f.StringVar(&o.NetworkDomain, "network-domain", "", "this node's network domain; default the value of its label (modes node and all)")
	f.StringVar(&o.DefaultNetworkDomain, "default-network-domain", v1alpha1.DefaultNetworkDomain, "network domain of storage nodes that no StorageNode describes (modes controller and all)")
	f.BoolVar(&o.LoadModules, "load-modules", false, "load the kernel's NVMe-oF initiator with modprobe at the start (modes node and all)")
	f.Int64Var(&o.MaxVolumes, "max-volumes", defaultMaxVolumes, "how many volumes this node takes; 0 for no limit (modes node and all)")
	f.IntVar(&o.MaxConnects, "max-connects", 8, "how many connections this node makes at a time (modes node and all)")
	f.StringVar(&o.ShutdownMarker, "shutdown-marker", "/run/nologin", "file that exists while the host goes down; \"none\" for no such file (modes node and all)")
	f.DurationVar(&o.ShutdownPatience, "shutdown-patience", 3*time.Second, "how long after SIGTERM the shutdown marker may appear (modes node and all)")
	f.StringVar(&o.HealthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz, 0 for none")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", "0", "address of /metrics, 0 for none")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "path of a kubeconfig; default the pod's service account")
	f.TextVar(&o.LogLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR; DEBUG also logs probes")
}

// none switches an optional directory or address off.
const none = "none"

// maxShutdownPatience leaves time to act before kubelet kills what it asked to
// end 30 s ago.
const maxShutdownPatience = 15 * time.Second

// complete fills in what depends on other flags.
func (o Options) complete() Options {
	if o.ShutdownMarker == "" {
		o.ShutdownMarker = none
	}
	if o.RegistrationDir == "" {
		o.RegistrationDir = filepath.Join(o.KubeletDir, "plugins_registry")
	}
	if o.Endpoint == "" {
		o.Endpoint = "unix://" + defaultControllerSocket
		if o.Mode.node() {
			o.Endpoint = "unix://" + filepath.Join(o.pluginDir(), "csi.sock")
		}
	}
	return o
}

// pluginDir is where kubelet lets a driver keep its files.
func (o Options) pluginDir() string {
	return filepath.Join(o.KubeletDir, "plugins", v1alpha1.DriverName)
}

// Validate says everything that is wrong, by flag.
func (o Options) Validate() error {
	var errs []error
	wrong := func(flag, value, rule string) {
		errs = append(errs, fmt.Errorf("--%s %q: %s", flag, value, rule))
	}
	if !slices.Contains([]Mode{ModeController, ModeNode, ModeAll}, o.Mode) {
		wrong("mode", string(o.Mode), "want controller, node or all")
	}
	if _, err := rpc.SocketPath(o.Endpoint); err != nil {
		errs = append(errs, fmt.Errorf("--endpoint: %w", err))
	}
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		wrong("namespace", o.Namespace, strings.Join(problems, "; "))
	} else if err := longestHandle(o.Namespace).Validate(); err != nil {
		wrong("namespace", o.Namespace, "is too long for the handles of its volumes: "+err.Error())
	}
	if o.DefaultBackend != string(v1alpha1.BackendKernel) {
		wrong("default-backend", o.DefaultBackend, "this version exports with \"kernel\" only")
	}
	if problems := validation.IsQualifiedName(o.TopologyKey); len(problems) > 0 {
		wrong("topology-key", o.TopologyKey, strings.Join(problems, "; "))
	}
	if o.Mode.controller() {
		if err := request.ValidateDomain(o.DefaultNetworkDomain); err != nil {
			errs = append(errs, fmt.Errorf("--default-network-domain: %w", err))
		}
	}
	if o.Mode.node() {
		errs = append(errs, o.validateNode()...)
	}
	return errors.Join(errs...)
}

func (o Options) validateNode() []error {
	var errs []error
	if problems := validation.IsDNS1123Subdomain(o.NodeID); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--node-id %q: %s", o.NodeID, strings.Join(problems, "; ")))
	}
	if o.NetworkDomain != "" {
		if err := request.ValidateDomain(o.NetworkDomain); err != nil {
			errs = append(errs, fmt.Errorf("--network-domain: %w", err))
		}
	}
	if o.MaxVolumes < 0 {
		errs = append(errs, fmt.Errorf("--max-volumes %d: want 0 or more", o.MaxVolumes))
	}
	if o.MaxConnects < 0 {
		errs = append(errs, fmt.Errorf("--max-connects %d: want 0, which means 8, or more", o.MaxConnects))
	}
	if o.ShutdownPatience < 0 || o.ShutdownPatience > maxShutdownPatience {
		errs = append(errs, fmt.Errorf("--shutdown-patience %s: want 0s to %s", o.ShutdownPatience, maxShutdownPatience))
	}
	for flag, dir := range map[string]string{
		"kubelet-dir": o.KubeletDir, "registration-dir": o.RegistrationDir, "shutdown-marker": o.ShutdownMarker,
	} {
		if flag != "kubelet-dir" && dir == none {
			continue
		}
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
			errs = append(errs, fmt.Errorf("--%s %q: want an absolute, canonical path", flag, dir))
		}
	}
	return errs
}

// longestHandle is the handle of a volume with the longest name that
// identity.VolumeName gives.
func longestHandle(namespace string) handle.Handle {
	const uid = "00000000-0000-0000-0000-000000000000"
	return handle.Handle{Kind: handle.NVMePartition, Namespace: namespace, Name: identity.VolumeName("pvc-" + uid), UID: uid}
}
