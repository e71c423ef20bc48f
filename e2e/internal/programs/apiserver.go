package programs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/e2e/internal/repo"
)

// startAPIServer starts kube-apiserver and etcd, and returns an administrator's
// configuration, also as a file.
func startAPIServer(t *testing.T, fsync bool) (*rest.Config, string) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS must name a directory with kube-apiserver and etcd: run `make trace-test`, which prepares one")
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join(repository(t), "modules", "api", "config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	if fsync {
		env.ControlPlane.Etcd = &envtest.Etcd{}
		env.ControlPlane.Etcd.Configure().Set("unsafe-no-fsync", "false")
	}
	_, err := env.Start()
	must(t, err)
	t.Cleanup(func() { must(t, env.Stop()) })
	user, err := env.AddUser(envtest.User{Name: "programs", Groups: []string{"system:masters"}}, nil)
	must(t, err)
	text, err := user.KubeConfig()
	must(t, err)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, text, 0o600))
	return user.Config(), file
}

func repository(t *testing.T) string {
	t.Helper()
	root, err := repo.Root()
	must(t, err)
	return root
}
