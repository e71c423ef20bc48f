package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/e2e/internal/repo"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// envHelm names the helm program; without it nothing is tested.
const envHelm = "DISTORT_HELM"

const (
	release   = "distort"
	namespace = "distort-system"
	// previousChart is the chart of commit ed1bd66, before it had policies: what an
	// upgrade starts from.
	previousChart = "testdata/distort-before-policies.tgz"
)

// here is what every test of this package uses.
var here struct {
	helm, root, kubeconfig string
	config                 *rest.Config
	admin                  client.Client
}

func TestMain(m *testing.M) {
	if os.Getenv(envHelm) == "" {
		fmt.Fprintln(os.Stderr, "chart tests are skipped: run `make chart-test`")
		return
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	here.helm = os.Getenv(envHelm)
	if here.root, err = repo.Root(); err != nil {
		return 1, err
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New("KUBEBUILDER_ASSETS must name a directory with kube-apiserver and etcd: run `make chart-test`, which prepares one")
	}
	server := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute}
	if here.config, err = server.Start(); err != nil {
		return 1, fmt.Errorf("start kube-apiserver and etcd: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	here.config.QPS = -1
	dir, err := os.MkdirTemp("", "chart-test")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	here.kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(here.kubeconfig, server.KubeConfig, 0o600); err != nil {
		return 1, err
	}
	if here.admin, err = client.New(here.config, client.Options{Scheme: scheme()}); err != nil {
		return 1, fmt.Errorf("make a client: %w", err)
	}
	return m.Run(), nil
}

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}

// chartDir is the chart of this checkout.
func chartDir() string { return filepath.Join(here.root, "charts", "distort") }

// helm runs helm and returns its output; the error has what it said.
func helm(ctx context.Context, args ...string) ([]byte, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, here.helm, append(args, "--kubeconfig", here.kubeconfig, "--namespace", namespace)...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w: %s", args[0], err, said.String())
	}
	return out.Bytes(), nil
}
