package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Options are the settings of distort-manager, a flag each.
type Options struct {
	// Namespace of DISTORT's own objects: Leases and leader election.
	Namespace string
	// DefaultNetworkDomain is the network domain of a storage node that no
	// StorageNode describes.
	DefaultNetworkDomain string
	// LeaderElect lets one of several replicas work. Without it there must be one.
	LeaderElect bool
	// LeaseDuration is how long another replica waits for a silent leader before
	// it takes over. The leader gives up after two thirds of it.
	LeaseDuration time.Duration
	// HealthProbeBindAddress serves /healthz and /readyz; "0" turns it off.
	HealthProbeBindAddress string
	// MetricsBindAddress serves /metrics; "0" turns it off.
	MetricsBindAddress string
	// Kubeconfig is a file; empty means the pod's own service account, or KUBECONFIG.
	Kubeconfig string
	// KubeAPIQPS and KubeAPIBurst limit the requests to the API server.
	KubeAPIQPS   float32
	KubeAPIBurst int
	// LogLevel is the least level that is logged.
	LogLevel slog.Level
}

// Defaults are the options without flags. The environment variable
// POD_NAMESPACE names the namespace.
func Defaults(getenv func(string) string) Options {
	o := Options{
		Namespace: getenv("POD_NAMESPACE"), DefaultNetworkDomain: v1alpha1.DefaultNetworkDomain, LeaderElect: true, LeaseDuration: 15 * time.Second,
		HealthProbeBindAddress: ":8081", MetricsBindAddress: "0", KubeAPIQPS: 100, KubeAPIBurst: 200,
	}
	if o.Namespace == "" {
		o.Namespace = v1alpha1.DefaultNamespace
	}
	return o
}

// Parse reads the command line.
func Parse(args []string, getenv func(string) string) (Options, error) {
	o := Defaults(getenv)
	flags := pflag.NewFlagSet("distort-manager", pflag.ContinueOnError)
	flags.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of DISTORT's own objects (POD_NAMESPACE)")
	flags.StringVar(&o.DefaultNetworkDomain, "default-network-domain", o.DefaultNetworkDomain, "network domain of storage nodes that no StorageNode describes")
	flags.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "let one of several replicas work, by the Lease "+leaderElectionID)
	flags.DurationVar(&o.LeaseDuration, "leader-elect-lease-duration", o.LeaseDuration, "how long another replica waits for a silent leader before it takes over")
	flags.StringVar(&o.HealthProbeBindAddress, "health-probe-bind-address", o.HealthProbeBindAddress, "address of /healthz and /readyz, 0 for none")
	flags.StringVar(&o.MetricsBindAddress, "metrics-bind-address", o.MetricsBindAddress, "address of /metrics, 0 for none")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file; without it KUBECONFIG or the pod's service account")
	flags.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "requests per second to the API server")
	flags.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "requests to the API server that may come at once")
	flags.TextVar(&o.LogLevel, "log-level", o.LogLevel, "least level that is logged: DEBUG, INFO, WARN or ERROR")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q: distort-manager takes flags alone", flags.Arg(0))
	}
	return o, o.Validate()
}

// minLeaseDuration leaves a leader time for more than one renewal.
const minLeaseDuration = 3 * time.Second

// Validate tells what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", o.Namespace, strings.Join(problems, "; ")))
	}
	if problems := validation.IsValidLabelValue(o.DefaultNetworkDomain); len(problems) > 0 || o.DefaultNetworkDomain == "" {
		errs = append(errs, fmt.Errorf("--default-network-domain %q: must be a label value and not empty", o.DefaultNetworkDomain))
	}
	if o.KubeAPIQPS <= 0 || o.KubeAPIBurst <= 0 {
		errs = append(errs, fmt.Errorf("--kube-api-qps %v and --kube-api-burst %d: must be above 0", o.KubeAPIQPS, o.KubeAPIBurst))
	}
	if o.LeaseDuration < minLeaseDuration {
		errs = append(errs, fmt.Errorf("--leader-elect-lease-duration %v: must be at least %v", o.LeaseDuration, minLeaseDuration))
	}
	return errors.Join(errs...)
}
