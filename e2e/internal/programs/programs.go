// Package programs runs the three programs as processes of their own, as built from
// their modules, against one kube-apiserver and etcd. distort-manager and distort-csi
// (controller) are the products' binaries. distort-agent needs a kernel with nvmet and
// drives, so it is the test binary of its module, which runs the product's wiring from
// options to controllers on a storage node in memory (TestHelperAgent there).
package programs

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Names of what there is.
const (
	Namespace = v1alpha1.DefaultNamespace
	// Storage is the agent's node, Consumer one that volumes are published to.
	Storage  = "storage-1"
	Consumer = "consumer-1"

	Manager = "manager"
	CSI     = "csi"
	Agent   = "agent"
)

// System is the control plane with the three programs. It ends with the test.
type System struct {
	// API speaks with the API server as an administrator, Config is how.
	API    client.WithWatch
	Config *rest.Config
	// CSI is the connection to distort-csi.
	CSI *grpc.ClientConn

	t         *testing.T
	agent     io.Writer
	logs      map[string]*output
	metrics   map[string]string
	processes map[string]*os.Process
}

// Options change how the programs run.
type Options struct {
	// Env is the further environment of all programs but the manager, ManagerEnv the
	// manager's.
	Env, ManagerEnv []string
	// Node describes the agent's node, as the environment of TestHelperAgent.
	Node []string
	// Flags are further flags of each program.
	Flags map[string][]string
	// Fsync makes etcd wait for its disk, as in a real cluster.
	Fsync bool
}

// Start starts everything.
func Start(t *testing.T, o Options) *System {
	t.Helper()
	config, kubeconfig := startAPIServer(t, o.Fsync)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, storagev1.AddToScheme} {
		must(t, add(scheme))
	}
	config.QPS = -1
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	must(t, err)
	s := &System{t: t, API: api, Config: config, logs: map[string]*output{}, metrics: map[string]string{}, processes: map[string]*os.Process{}}
	must(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}))
	must(t, api.Create(t.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: Consumer},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: v1alpha1.DriverName, NodeID: Consumer}}},
	}))

	built := build(t)
	s.run(Manager, o.ManagerEnv, exec.Command(filepath.Join(built, "distort-manager"), append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--health-probe-bind-address=0", "--metrics-bind-address=" + s.free(Manager),
	}, o.Flags[Manager]...)...))
	// A socket's path is bounded.
	dir, err := os.MkdirTemp("", "csi")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "private", "csi.sock")
	s.run(CSI, o.Env, exec.Command(filepath.Join(built, "distort-csi"), append([]string{
		"--kubeconfig=" + kubeconfig, "--mode=controller", "--endpoint=unix://" + socket, "--namespace=" + Namespace,
		"--health-probe-bind-address=0", "--metrics-bind-address=" + s.free(CSI),
	}, o.Flags[CSI]...)...))
	agent := exec.Command(filepath.Join(built, "agent.test"), "-test.run=^TestHelperAgent$", "-test.timeout=0")
	agent.Env = append([]string{
		"DISTORT_HELPER_KUBECONFIG=" + kubeconfig,
		"DISTORT_HELPER_FLAGS=--node-name=" + Storage + " --namespace=" + Namespace + " --health-probe-bind-address=0 --metrics-bind-address=" +
			s.free(Agent) + " " + strings.Join(o.Flags[Agent], " "),
	}, o.Node...)
	orders, err := agent.StdinPipe()
	must(t, err)
	s.agent = orders
	s.run(Agent, o.Env, agent)

	s.CSI, err = grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { must(t, s.CSI.Close()) })
	return s
}

// build builds the programs, as the test itself was built, so that the build cache
// serves both.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	root := repository(t)
	for _, args := range [][]string{
		{"build", "-o", filepath.Join(dir, "distort-manager"), "./modules/manager/cmd/distort-manager"},
		{"build", "-o", filepath.Join(dir, "distort-csi"), "./modules/csi/cmd/distort-csi"},
		{"test", "-c", "-o", filepath.Join(dir, "agent.test"), "./modules/agent/internal/app"},
	} {
		if raceDetector {
			args = append([]string{args[0], "-race"}, args[1:]...)
		}
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir = root
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// free is a loopback address for a program's metrics.
func (s *System) free(program string) string {
	var config net.ListenConfig
	l, err := config.Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	must(s.t, err)
	defer l.Close()
	s.metrics[program] = l.Addr().String()
	return l.Addr().String()
}

// run starts a program, which ends with the test.
func (s *System) run(name string, env []string, command *exec.Cmd) {
	s.t.Helper()
	log := &output{}
	s.logs[name] = log
	command.Env = append(append(append(os.Environ(), "POD_NAMESPACE="+Namespace), env...), command.Env...)
	command.Stdout, command.Stderr = log, log
	must(s.t, command.Start())
	s.processes[name] = command.Process
	s.t.Cleanup(func() {
		must(s.t, command.Process.Signal(syscall.SIGTERM))
		if err := command.Wait(); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
		if s.t.Failed() {
			s.t.Logf("log of %s:\n%s", name, log)
		}
	})
}

// Order tells the agent's storage node what happens to it (TestHelperAgent).
func (s *System) Order(text string) {
	s.t.Helper()
	_, err := fmt.Fprintln(s.agent, text)
	must(s.t, err)
}

// PID is the process of a program.
func (s *System) PID(program string) int { return s.processes[program].Pid }

// Log is what a program has logged.
func (s *System) Log(program string) string { return s.logs[program].String() }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
