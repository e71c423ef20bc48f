package controlplanetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const apiModule = "github.com/distort-io/distort/modules/api"

// assets is where envtest finds its programs.
const assets = "KUBEBUILDER_ASSETS"

const startTimeout = 2 * time.Minute

// Server is a running API server.
type Server struct {
	config *rest.Config
	scheme *runtime.Scheme
	client client.Client
}

// Main runs the tests of a package with a server, and gives the exit code for
// os.Exit.
func Main(m *testing.M, use func(*Server)) int {
	s, stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	use(s)
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		return 1
	}
	return code
}

func start() (*Server, func() error, error) {
	if os.Getenv(assets) == "" {
		return nil, nil, errors.New(assets + " is not set: it names the directory with kube-apiserver and etcd; `make test` sets it")
	}
	// go list finds the module in the workspace and in the module cache alike.
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", apiModule).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("find module %s: %w", apiModule, err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, nil, err
		}
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(strings.TrimSpace(string(dir)), "config", "crd")},
		ErrorIfCRDPathMissing: true,
		// A loaded machine takes longer than envtest's 20 s.
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	config, err := env.Start()
	if err != nil {
		return nil, nil, fmt.Errorf("start API server: %w", err)
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, errors.Join(err, env.Stop())
	}
	return &Server{config: config, scheme: scheme, client: c}, env.Stop, nil
}

// Config is a copy of an administrator's configuration.
func (s *Server) Config() *rest.Config { return rest.CopyConfig(s.config) }

// Scheme has the kinds that the driver uses.
func (s *Server) Scheme() *runtime.Scheme { return s.scheme }

// Client reads from and writes to the API server.
func (s *Server) Client() client.Client { return s.client }

// Namespace makes a namespace for one test.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "distort-"}}
	if err := s.client.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return n.Name
}

// Consumer makes a node with the driver, as kubelet does; once. Most is how many
// volumes it takes, 0 for any number.
func (s *Server) Consumer(t testing.TB, name string, most int32) {
	t.Helper()
	driver := storagev1.CSINodeDriver{Name: v1alpha1.DriverName, NodeID: name}
	if most > 0 {
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: &most}
	}
	n := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}}}
	if err := s.client.Create(t.Context(), n); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}
