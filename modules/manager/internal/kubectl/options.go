package kubectl

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/gather"
)

// options are the flags of every command.
type options struct {
	kubeconfig, context, namespace, driverNamespace string
	timeout                                         time.Duration
}

func (o *options) bind(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; without it KUBECONFIG or ~/.kube/config")
	flags.StringVar(&o.context, "context", "", "context of the kubeconfig")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "namespace of claims and pods; without it that of the context")
	flags.StringVar(&o.driverNamespace, "driver-namespace", v1alpha1.DefaultNamespace, "namespace that DISTORT is installed in")
	flags.DurationVar(&o.timeout, "request-timeout", 30*time.Second, "how long one request to the API server may take")
}

// session is a connection to the API server.
type session struct {
	gatherer *gather.Gatherer
	config   *rest.Config
	// namespace is where names without one are looked for.
	namespace string
}

// connect makes a session. Nothing is asked of the API server yet.
func (o *options) connect() (*session, error) {
	if o.timeout <= 0 {
		return nil, fmt.Errorf("--request-timeout %s: must be above 0", o.timeout)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	config.Timeout, config.QPS, config.Burst = o.timeout, 100, 200
	config.WarningHandler = rest.NoWarnings{}
	namespace := o.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("find the namespace: %w", err)
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make the scheme: %w", err)
		}
	}
	reader, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &session{
		gatherer:  &gather.Gatherer{Reader: reader, Namespace: o.driverNamespace, Now: time.Now},
		config:    config,
		namespace: namespace,
	}, nil
}

func (s *session) clientset() (kubernetes.Interface, error) {
	set, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return set, nil
}

// outputFlag adds -o, whose values are text and json.
func outputFlag(command *cobra.Command) *format {
	f := format("text")
	command.Flags().VarP(&f, "output", "o", "text or json")
	return &f
}

// format is how a command writes.
type format string

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(value string) error {
	if value != "text" && value != "json" {
		return fmt.Errorf("must be text or json")
	}
	*f = format(value)
	return nil
}

func (f *format) json() bool { return *f == "json" }
