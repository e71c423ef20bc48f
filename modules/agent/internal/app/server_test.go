package app_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/distort-io/distort/modules/agent/internal/app"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/volume/volumetest"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"

	"github.com/go-logr/logr"
)

// cluster is an API server with the product's CRDs.
type cluster struct {
	t      *testing.T
	config *rest.Config
	client client.Client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it names the directory with kube-apiserver and etcd; `make test` sets it")
	}
	ctrl.SetLogger(logr.Discard())
	// go list finds the module in the workspace and in the module cache alike.
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/distort-io/distort/modules/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{filepath.Join(strings.TrimSpace(string(dir)), "config", "crd")},
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: volumetest.Namespace}}); err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, config: config, client: c}
}

// running is one life of distort-agent with its real wiring.
type running struct {
	stop func()

	// flying is held for reading by each write until its answer is here.
	flying sync.RWMutex
	mu     sync.Mutex
	writes []string
}

// start runs the agent of the node until stop.
func (c *cluster) start(t *testing.T, node *volumetest.Node) *running {
	t.Helper()
	r := &running{}
	config := rest.CopyConfig(c.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodGet {
				return next.RoundTrip(request)
			}
			r.flying.RLock()
			defer r.flying.RUnlock()
			response, err := next.RoundTrip(request)
			if err == nil {
				r.mu.Lock()
				r.writes = append(r.writes, fmt.Sprintf("%s %s %d", request.Method, request.URL.Path, response.StatusCode))
				r.mu.Unlock()
			}
			return response, err
		})
	})
	o := app.Defaults(func(string) string { return "" })
	o.NodeName, o.HealthProbeBindAddress = node.Name, "0"
	o.ScanInterval, o.CheckInterval = 2*time.Second, 2*time.Second
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	process := node.Boot(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	mgr, err := app.New(ctx, config, o, app.Host{
		Hardware: node, Media: media.NewProber(node.Drive.Runner(), node, node.Drive), Manager: process.Manager, ZFS: process.ZFS, Target: process.Target,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// to lists the writes to one kind of object since the last call for it, without
// the names.
func (r *running) to(resource string) []string {
	r.flying.Lock()
	defer r.flying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	var out, rest []string
	for _, w := range r.writes {
		if !strings.Contains(w, "/"+resource) {
			rest = append(rest, w)
			continue
		}
		method, tail, _ := strings.Cut(w, " ")
		what := method
		if strings.Contains(tail, "/status ") {
			what += " status"
		}
		out = append(out, what+tail[strings.LastIndex(tail, " "):])
	}
	r.writes = rest
	return out
}

// eventually waits until what is asked for is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}

// get reads the object again; false when it is gone.
func (c *cluster) get(t *testing.T, o client.Object) bool {
	t.Helper()
	err := c.client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func (c *cluster) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) delete(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// claimDrive plays distort-manager: it waits for the drive and binds it.
func (c *cluster) claimDrive(t *testing.T, node *volumetest.Node) {
	t.Helper()
	d := node.Device()
	eventually(t, "the drive is reported", func() bool {
		return c.get(t, d) && meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionMediaUsable)
	})
	claim := volumetest.Claim()
	before := d.DeepCopy()
	d.Status.State, d.Status.ClaimRef = v1alpha1.DeviceClaimed, &claim
	if err := c.client.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	n := &v1alpha1.RDMAStorageNode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	eventually(t, "the agent has seen the claim", func() bool { return c.get(t, n) && n.Status.TotalCapacity > 0 })
}

// provision plays distort-csi and distort-manager: it asks for a volume and places
// it.
func (c *cluster) provision(t *testing.T, node *volumetest.Node, name string) *v1alpha1.NVMePartition {
	t.Helper()
	p := node.Partition(name, sliceSize)
	placed := p.Spec
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber, p.Spec.ClaimRef = "", "", nil
	c.create(t, p)
	before := p.DeepCopy()
	p.Spec = placed
	if err := c.client.Patch(t.Context(), p, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *cluster) isExported(t *testing.T, p *v1alpha1.NVMePartition) func() bool {
	return func() bool {
		return c.get(t, p) && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionExported)
	}
}

func (c *cluster) isGranted(t *testing.T, a *v1alpha1.NVMeVolumeAttachment) func() bool {
	return func() bool {
		return c.get(t, a) && meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionAccessReady)
	}
}

func (c *cluster) isGone(t *testing.T, o client.Object) func() bool {
	return func() bool { return !c.get(t, o) }
}

func (c *cluster) isReady(t *testing.T, node *volumetest.Node) func() bool {
	return func() bool {
		n := &v1alpha1.RDMAStorageNode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
		return c.get(t, n) && meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady)
	}
}

func TestAgentOnAnAPIServer(t *testing.T) {
	c := newCluster(t)

	t.Run("a volume's whole life in the fewest writes", func(t *testing.T) {
		node := volumetest.NewNode("life", "LIFE1", driveSize)
		agent := c.start(t, node)
		c.claimDrive(t, node)
		before := node.Dump()
		p := c.provision(t, node, "life-1")
		eventually(t, "exported", c.isExported(t, p))
		if diff := cmp.Diff([]string{"PATCH status 200"}, agent.to("nvmepartitions")); diff != "" {
			t.Errorf("writes of the partition (-want +got):\n%s", diff)
		}
		at := node.Attachment(p, consumer)
		c.create(t, at)
		eventually(t, "granted", c.isGranted(t, at))
		if diff := cmp.Diff([]string{"PATCH status 200"}, agent.to("nvmevolumeattachments")); diff != "" {
			t.Errorf("writes of the attachment (-want +got):\n%s", diff)
		}
		c.delete(t, at)
		eventually(t, "detached", c.isGone(t, at))
		if diff := cmp.Diff([]string{"PATCH status 200", "PATCH 200"}, agent.to("nvmevolumeattachments")); diff != "" {
			t.Errorf("writes of the detach (-want +got):\n%s", diff)
		}
		c.delete(t, p)
		eventually(t, "deleted", c.isGone(t, p))
		if diff := cmp.Diff([]string{"PATCH 200"}, agent.to("nvmepartitions")); diff != "" {
			t.Errorf("writes of the deletion (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, node.Dump()); diff != "" {
			t.Errorf("node (-before +after):\n%s", diff)
		}
	})

	t.Run("many at once without a conflict", func(t *testing.T) {
		const n = 8
		node := volumetest.NewNode("many", "MANY1", driveSize)
		agent := c.start(t, node)
		c.claimDrive(t, node)
		var volumes []*v1alpha1.NVMePartition
		var attachments []*v1alpha1.NVMeVolumeAttachment
		for i := range n {
			volumes = append(volumes, c.provision(t, node, fmt.Sprintf("many-%d", i)))
		}
		for _, p := range volumes {
			eventually(t, "exported", c.isExported(t, p))
			at := node.Attachment(p, consumer)
			c.create(t, at)
			attachments = append(attachments, at)
		}
		for _, at := range attachments {
			eventually(t, "granted", c.isGranted(t, at))
		}
		if got := agent.to("nvmepartitions"); len(got) != n {
			t.Errorf("%d writes for %d volumes: %v", len(got), n, got)
		}
		for _, at := range attachments {
			c.delete(t, at)
		}
		for i, at := range attachments {
			eventually(t, "detached", c.isGone(t, at))
			c.delete(t, volumes[i])
		}
		for _, p := range volumes {
			eventually(t, "deleted", c.isGone(t, p))
		}
		for _, resource := range []string{"nvmepartitions", "nvmevolumeattachments"} {
			for _, w := range agent.to(resource) {
				if !strings.HasSuffix(w, " 200") {
					t.Errorf("%s: %s", resource, w)
				}
			}
		}
		if got := node.Slices(); len(got) != 0 {
			t.Errorf("slices %v are left", got)
		}
		d := node.Device()
		eventually(t, "the drive is given back", func() bool {
			return c.get(t, d) && d.Status.ActiveBackend == v1alpha1.ActiveBackendNone
		})
	})

	t.Run("a restart after a reboot rebuilds everything and writes nothing", func(t *testing.T) {
		node := volumetest.NewNode("reboot", "BOOT1", driveSize)
		agent := c.start(t, node)
		c.claimDrive(t, node)
		p := c.provision(t, node, "boot-1")
		eventually(t, "exported", c.isExported(t, p))
		at := node.Attachment(p, consumer)
		c.create(t, at)
		eventually(t, "granted", c.isGranted(t, at))
		want := node.Dump()
		agent.stop()
		node.Reboot()
		again := c.start(t, node)
		eventually(t, "rebuilt", func() bool { return cmp.Equal(want, node.Dump()) })
		eventually(t, "the node is ready", c.isReady(t, node))
		for _, resource := range []string{"nvmepartitions", "nvmevolumeattachments"} {
			if got := again.to(resource); len(got) != 0 {
				t.Errorf("writes to %s: %v", resource, got)
			}
		}
	})

	t.Run("an attachment deleted while the agent was away is fenced", func(t *testing.T) {
		node := volumetest.NewNode("away", "AWAY1", driveSize)
		agent := c.start(t, node)
		c.claimDrive(t, node)
		p := c.provision(t, node, "away-1")
		eventually(t, "exported", c.isExported(t, p))
		at := node.Attachment(p, consumer)
		c.create(t, at)
		eventually(t, "granted", c.isGranted(t, at))
		host, err := node.Kernel.Connect(at.Spec.HostNQN, volumetest.NQN(p), listener())
		if err != nil {
			t.Fatal(err)
		}
		agent.stop()
		c.delete(t, at)
		if err := host.Write(1, "still there"); err != nil {
			t.Fatalf("data path does not survive the agent: %v", err)
		}
		c.start(t, node)
		eventually(t, "detached", c.isGone(t, at))
		if err := host.Write(1, "stale"); err == nil {
			t.Error("the host still writes after its attachment went")
		}
	})

	t.Run("a broken export is repaired without a write", func(t *testing.T) {
		node := volumetest.NewNode("broken", "BROKEN1", driveSize)
		agent := c.start(t, node)
		c.claimDrive(t, node)
		p := c.provision(t, node, "broken-1")
		eventually(t, "exported", c.isExported(t, p))
		agent.to("nvmepartitions")
		want := node.Dump()
		if err := node.Kernel.WriteFile("subsystems/"+volumetest.NQN(p)+"/namespaces/1/enable", []byte("0")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "repaired", func() bool { return cmp.Equal(want, node.Dump()) })
		if got := agent.to("nvmepartitions"); len(got) != 0 {
			t.Errorf("writes = %v, want none: it was repaired before anybody could be told", got)
		}
	})

	t.Run("other nodes' objects are not in its cache", func(t *testing.T) {
		node := volumetest.NewNode("mine", "MINE1", driveSize)
		other := volumetest.NewNode("other", "OTHER1", driveSize)
		agent := c.start(t, node)
		c.claimDrive(t, node)
		theirs := c.provision(t, other, "other-1")
		c.create(t, other.Attachment(theirs, consumer))
		mine := c.provision(t, node, "mine-1")
		eventually(t, "exported", c.isExported(t, mine))
		if diff := cmp.Diff([]string{volumetest.NQN(mine)}, node.Exports(t)); diff != "" {
			t.Errorf("exports (-want +got):\n%s", diff)
		}
		if got := agent.to("nvmepartitions"); len(got) != 1 {
			t.Errorf("writes = %v, want one, of its own partition", got)
		}
		if got := agent.to("nvmevolumeattachments"); len(got) != 0 {
			t.Errorf("writes to another node's attachment: %v", got)
		}
	})

	t.Run("a volume that cannot be exported does not keep the node from being ready", func(t *testing.T) {
		node := volumetest.NewNode("stuck", "STUCK1", driveSize)
		p := c.provision(t, node, "stuck-1")
		c.start(t, node)
		eventually(t, "the node is ready", c.isReady(t, node))
		if c.get(t, p); condition(p.Status.Conditions, v1alpha1.ConditionClaimAuthorized) == "True/ClaimMatches" {
			t.Error("a drive that nobody claimed was authorised")
		}
		if got := node.Slices(); len(got) != 0 {
			t.Errorf("slices %v were made without a claim", got)
		}
		c.claimDrive(t, node)
		eventually(t, "exported once the drive is claimed", c.isExported(t, p))
		if got := node.Slices(); !cmp.Equal(got, []string{identity.PartitionUUID(string(p.UID))}) {
			t.Errorf("slices = %v", got)
		}
	})
}
