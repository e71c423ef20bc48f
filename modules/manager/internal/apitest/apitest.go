// Package apitest starts a real API server with our kinds, for the tests of the
// packages beside it.
package apitest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Main is the whole of a TestMain: it starts kube-apiserver and etcd, runs prepare
// with the administrator's configuration, then the tests, and ends the process with
// their code.
func Main(m *testing.M, prepare func(*envtest.Environment, *rest.Config) error) {
	code, err := run(m, prepare)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests with an API server:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, prepare func(*envtest.Environment, *rest.Config) error) (code int, err error) {
	ctrl.SetLogger(logr.Discard())
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		return 1, fmt.Errorf("KUBEBUILDER_ASSETS must name a directory with kube-apiserver and etcd: run `make test`, which prepares one")
	}
	env := &envtest.Environment{
		// From the package of the test.
		CRDDirectoryPaths:        []string{filepath.Join("..", "..", "..", "api", "config", "crd")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		return 1, fmt.Errorf("start kube-apiserver and etcd from KUBEBUILDER_ASSETS=%s: %w", assets, err)
	}
	defer func() {
		if stopErr := env.Stop(); stopErr != nil && err == nil {
			code, err = 1, fmt.Errorf("stop kube-apiserver and etcd: %w", stopErr)
		}
	}()
	config.QPS = -1
	if err := prepare(env, config); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
