package report_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/agent/internal/report"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// host is a node with drives that a test can take away.
type host struct {
	mu   sync.Mutex
	scan inventory.Scan
}

func (h *host) Scan(context.Context) inventory.Scan {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.scan
}

func (h *host) set(s inventory.Scan) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scan = s
}

func (h *host) Portals(context.Context) inventory.PortalScan {
	return inventory.PortalScan{Complete: true, Portals: []inventory.Portal{
		{Fabric: inventory.FabricTCP, Address: netip.MustParseAddr("fd00::1"), Interface: "eth0", NUMANode: -1}}}
}

func (h *host) Uses(string) ([]inventory.Use, error) { return nil, nil }

func (h *host) Probe(context.Context, inventory.Drive) media.Finding {
	return media.Finding{Verdict: media.Blank, Message: "blank"}
}

func (h *host) Changes(string) uint64 { return 0 }

func (h *host) Survey(_ context.Context, d inventory.Drive, _ bool) (carve.Survey, error) {
	return carve.Survey{LargestFree: d.SizeBytes}, nil
}

// apiServer starts an API server with the product's CRDs.
func apiServer(t *testing.T, scheme *runtime.Scheme) *envtest.Environment {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it names the directory with kube-apiserver and etcd; `make test` sets it")
	}
	// go list finds the module in the workspace and in the module cache alike.
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/distort-io/distort/modules/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{Scheme: scheme, ErrorIfCRDPathMissing: true,
		CRDDirectoryPaths: []string{filepath.Join(strings.TrimSpace(string(dir)), "config", "crd")}}
	if _, err := env.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return env
}

func TestReporterOnAnAPIServer(t *testing.T) {
	const node = "storage-1"
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	env := apiServer(t, scheme)
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := volume.IndexPartitions(t.Context(), mgr.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	h := &host{}
	drive := inventory.Drive{Serial: "S4EV NX0R", Model: "Model with spaces", PCIAddress: "10000:e1:00.0", NUMANode: 1, State: inventory.StateLive,
		Name: "nvme0n1", Path: "/dev/nvme0n1", Dev: inventory.DevNum{Major: 259}, SizeBytes: 1 << 40, BlockBytes: 4096}
	h.set(inventory.Scan{Complete: true, Drives: []inventory.Drive{drive}})
	r, err := report.New(report.Config{Client: mgr.GetClient(), NodeName: node, Hardware: h, Media: h, Tables: h,
		Ready: func() bool { return true }, Strangers: func() ([]string, bool) { return nil, true }, Unseen: func() string { return "" },
		TCPPort: 4420, RDMAPort: 4421, Delay: func() time.Duration { return time.Hour }}) // only events wake it here
	if err != nil {
		t.Fatal(err)
	}
	events := report.NewUevents()
	if err := r.SetupWithManager(mgr, events.Changed()); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(&report.Heartbeat{Client: mgr.GetClient(), NodeName: node, Namespace: "default"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	direct, err := client.New(env.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	device, own, lease := &v1alpha1.NVMeDevice{}, &v1alpha1.RDMAStorageNode{}, &coordinationv1.Lease{}
	condition := func(all []metav1.Condition, kind string) string {
		c := meta.FindStatusCondition(all, kind)
		if c == nil {
			return "absent"
		}
		return string(c.Status) + " " + c.Reason
	}
	eventually := func(what string, o client.Object, name types.NamespacedName, want string, got func() string) {
		t.Helper()
		var last string
		deadline, ticks := time.After(30*time.Second), time.NewTicker(50*time.Millisecond)
		defer ticks.Stop()
		for {
			if err := direct.Get(ctx, name, o); err != nil {
				last = err.Error()
			} else if last = got(); last == want {
				return
			}
			select {
			case <-ticks.C:
			case <-deadline:
				t.Fatalf("%s: %s, want %s", what, last, want)
			}
		}
	}
	deviceName := types.NamespacedName{Name: identity.DeviceName(node, drive.Serial)}
	nodeName := types.NamespacedName{Name: node}
	hardware := func() string { return condition(device.Status.Conditions, v1alpha1.ConditionHardwareAvailable) }
	ready := func() string { return condition(own.Status.Conditions, v1alpha1.ConditionReady) }

	eventually("drive", device, deviceName, "True Discovered", hardware)
	eventually("node", own, nodeName, "True AgentReady", ready)
	eventually("lease", lease, types.NamespacedName{Namespace: "default", Name: "distort-agent-" + node}, node, func() string { return *lease.Spec.HolderIdentity })

	t.Log("the manager calls the node dead")
	changed := own.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHeartbeatExpired})
	if err := direct.Status().Patch(ctx, changed, client.MergeFrom(own)); err != nil {
		t.Fatal(err)
	}
	eventually("node", own, nodeName, "True AgentReady", ready)

	t.Log("a claim takes the drive")
	claimed := device.DeepCopy()
	claimed.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: "n", Name: "c", UID: "6b1f1cbb-9a0b-4f57-a6c9-0d1c4c8c2f11"}
	if err := direct.Status().Patch(ctx, claimed, client.MergeFrom(device)); err != nil {
		t.Fatal(err)
	}
	eventually("node", own, nodeName, "all of it", func() string {
		if own.Status.TotalCapacity == device.Spec.TotalCapacity {
			return "all of it"
		}
		return "not yet"
	})

	t.Log("the drive is pulled, and the kernel says so")
	h.set(inventory.Scan{Complete: true})
	events.Poke()
	eventually("drive", device, deviceName, "False NotFound", hardware)
	if diff := cmp.Diff(claimed.Status.ClaimRef, device.Status.ClaimRef); diff != "" {
		t.Errorf("claim (-before +after):\n%s", diff)
	}

	t.Log("somebody deletes the node's object")
	if err := direct.Delete(ctx, own); err != nil {
		t.Fatal(err)
	}
	eventually("node", own, nodeName, "True AgentReady", ready)
}
