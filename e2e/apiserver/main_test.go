package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// server is the API server that every test of this package talks to.
var server struct {
	config *rest.Config
	client client.Client
	crds   []*apiextensionsv1.CustomResourceDefinition
}

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "apiserver tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, fmt.Errorf("KUBEBUILDER_ASSETS must name a directory with kube-apiserver and etcd: run `make test`, which prepares one")
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:        []string{filepath.Join("..", "..", "modules", "api", "config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		return 1, fmt.Errorf("start kube-apiserver and etcd from KUBEBUILDER_ASSETS=%s: %w", os.Getenv("KUBEBUILDER_ASSETS"), err)
	}
	defer func() {
		if stopErr := env.Stop(); stopErr != nil && err == nil {
			code, err = 1, fmt.Errorf("stop kube-apiserver and etcd: %w", stopErr)
		}
	}()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return 1, err
	}
	config.QPS = -1
	server.config, server.crds = config, env.CRDs
	if server.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 1, fmt.Errorf("make a client: %w", err)
	}
	return m.Run(), nil
}
