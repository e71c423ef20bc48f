package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/e2e/internal/otlp"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	namespace = v1alpha1.DefaultNamespace
	storage   = "storage-1"
	consumer  = "consumer-1"
	serial    = "TRACED-1"
	// slice is the device of the first slice on the agent's drive.
	slice = "nvme3n1p1"
)

// system is the control plane with the three programs.
type system struct {
	t        *testing.T
	api      client.WithWatch
	receiver *otlp.Receiver
	// csi is the connection to distort-csi.
	csi *grpc.ClientConn
	// agent takes orders about the storage node.
	agent io.Writer
	// logs are what each program logged, metrics where it serves metrics.
	logs    map[string]*output
	metrics map[string]string
}

// output is a log in memory.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// startSystem starts everything. traced programs export spans.
func startSystem(t *testing.T) *system {
	t.Helper()
	config, kubeconfig := startAPIServer(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, storagev1.AddToScheme} {
		must(t, add(scheme))
	}
	config.QPS = -1
	api, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	must(t, err)
	s := &system{t: t, api: api, receiver: otlp.NewReceiver(), logs: map[string]*output{}, metrics: map[string]string{}}
	must(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	must(t, api.Create(t.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: consumer},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: v1alpha1.DriverName, NodeID: consumer}}},
	}))
	overGRPC, overHTTP := s.receive()

	programs := build(t)
	s.run("manager", overHTTP, exec.Command(filepath.Join(programs, "distort-manager"), "--kubeconfig="+kubeconfig, "--leader-elect=false",
		"--health-probe-bind-address=0", "--metrics-bind-address="+s.free("manager")))
	// A socket's path is bounded.
	dir, err := os.MkdirTemp("", "csi")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "private", "csi.sock")
	s.run("csi", overGRPC, exec.Command(filepath.Join(programs, "distort-csi"), "--kubeconfig="+kubeconfig, "--mode=controller",
		"--endpoint=unix://"+socket, "--namespace="+namespace, "--health-probe-bind-address=0", "--metrics-bind-address="+s.free("csi")))
	agent := exec.Command(filepath.Join(programs, "agent.test"), "-test.run=^TestHelperAgent$", "-test.timeout=0")
	agent.Env = []string{
		"DISTORT_HELPER_KUBECONFIG=" + kubeconfig, "DISTORT_HELPER_SERIAL=" + serial,
		"DISTORT_HELPER_FLAGS=--node-name=" + storage + " --namespace=" + namespace + " --check-interval=1s --scan-interval=1s" +
			" --health-probe-bind-address=0 --metrics-bind-address=" + s.free("agent"),
	}
	orders, err := agent.StdinPipe()
	must(t, err)
	s.agent = orders
	s.run("agent", overGRPC, agent)

	s.csi, err = grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(t, err)
	t.Cleanup(func() { must(t, s.csi.Close()) })
	return s
}

// startAPIServer starts kube-apiserver and etcd, and returns an administrator's
// configuration, also as a file.
func startAPIServer(t *testing.T) (*rest.Config, string) {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS must name a directory with kube-apiserver and etcd: run `make trace-test`, which prepares one")
	}
	log.SetLogger(logr.Discard())
	env := &envtest.Environment{
		CRDDirectoryPaths: []string{filepath.Join("..", "..", "modules", "api", "config", "crd")}, ErrorIfCRDPathMissing: true,
		ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
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

// receive starts the receiver and returns the environments of programs that
// export to it.
func (s *system) receive() (overGRPC, overHTTP []string) {
	t := s.t
	t.Helper()
	var listeners [2]net.Listener
	for i := range listeners {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		must(t, err)
		listeners[i] = l
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.receiver.Serve(ctx, listeners[0], listeners[1]) }()
	t.Cleanup(func() { cancel(); must(t, <-ended) })
	env := func(protocol string, l net.Listener) []string {
		// The delay of batches, in milliseconds.
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=" + protocol, "OTEL_BSP_SCHEDULE_DELAY=50"}
	}
	return env("grpc", listeners[0]), env("http/protobuf", listeners[1])
}

// build builds the programs, as the test itself was built, so that the build cache
// serves both.
func build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"build", "-o", filepath.Join(dir, "distort-manager"), "./modules/manager/cmd/distort-manager"},
		{"build", "-o", filepath.Join(dir, "distort-csi"), "./modules/csi/cmd/distort-csi"},
		{"test", "-c", "-o", filepath.Join(dir, "agent.test"), "./modules/agent/internal/app"},
	} {
		if raceDetector {
			args = append([]string{args[0], "-race"}, args[1:]...)
		}
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir = filepath.Join("..", "..")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// free is a loopback address for a program's metrics.
func (s *system) free(program string) string {
	var config net.ListenConfig
	l, err := config.Listen(s.t.Context(), "tcp", "127.0.0.1:0")
	must(s.t, err)
	s.metrics[program] = l.Addr().String()
	must(s.t, l.Close())
	return s.metrics[program]
}

// scrape reads a program's own metrics.
func (s *system) scrape(program string) string {
	s.t.Helper()
	response, err := http.Get("http://" + s.metrics[program] + "/metrics")
	must(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(s.t, err)
	if response.StatusCode != http.StatusOK {
		s.t.Errorf("metrics of %s: %s: %s", program, response.Status, body)
	}
	var own strings.Builder
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "distort_") {
			own.WriteString(line)
		}
	}
	return own.String()
}

// run starts a program, which ends with the test.
func (s *system) run(name string, env []string, command *exec.Cmd) {
	s.t.Helper()
	log := &output{}
	s.logs[name] = log
	command.Env = append(append(append(os.Environ(), "POD_NAMESPACE="+namespace), env...), command.Env...)
	command.Stdout, command.Stderr = log, log
	must(s.t, command.Start())
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

// order tells the agent's storage node what happens to it.
func (s *system) order(text string) {
	s.t.Helper()
	_, err := fmt.Fprintln(s.agent, text)
	must(s.t, err)
}

// until waits until an object of the list's kind is as wanted.
func until[T client.Object](s *system, list client.ObjectList, what string, is func(T) bool) {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := s.api.Watch(ctx, list)
	must(t, err)
	defer events.Stop()
	for {
		select {
		case event, open := <-events.ResultChan():
			if !open {
				must(t, errors.New("the watch ended before: "+what))
			}
			if o, ok := event.Object.(T); ok && is(o) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
