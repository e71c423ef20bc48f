package controller_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/controller"
	"github.com/distort-io/distort/modules/csi/internal/controlplanetest"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

const (
	// enough is a deadline for calls that should succeed, brief one for calls
	// that should run into it.
	enough = time.Minute
	brief  = 2 * time.Second

	nodeA, nodeB = "worker-a", "worker-b"
	topologyKey  = v1alpha1.TopologyKey
)

var server *controlplanetest.Server

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(controlplanetest.Main(m, func(s *controlplanetest.Server) { server = s }))
}

// harness is a controller service in a namespace of its own.
type harness struct {
	*controller.Server
	t         *testing.T
	namespace string
	stub      *controlplanetest.Stub
	requests  *controlplanetest.Requests
	cache     cache.Cache
}

type option func(*controller.Options)

// newHarness makes the test run beside others: most of their time they wait.
func newHarness(t *testing.T, b controlplanetest.Behaviour, change ...option) *harness {
	t.Helper()
	t.Parallel()
	return newSerialHarness(t, b, change...)
}

func newSerialHarness(t *testing.T, b controlplanetest.Behaviour, change ...option) *harness {
	t.Helper()
	for _, name := range []string{nodeA, nodeB} {
		server.Consumer(t, name, 0)
	}
	h := &harness{t: t, namespace: server.Namespace(t), requests: &controlplanetest.Requests{}}
	h.stub = server.Play(t, h.namespace, b)
	h.serve(change...)
	return h
}

// serve starts the service, with a cache of its own.
func (h *harness) serve(change ...option) {
	t := h.t
	t.Helper()
	config := server.Config()
	h.requests.Record(config)
	informers, err := cache.New(config, controller.CacheOptions(server.Scheme(), h.namespace))
	h.must(err)
	h.cache = informers
	cached, err := client.New(config, client.Options{Scheme: server.Scheme(), Cache: &client.CacheOptions{Reader: informers}})
	h.must(err)
	live, err := client.New(config, client.Options{Scheme: server.Scheme()})
	h.must(err)
	o := controller.Options{
		Namespace:     h.namespace,
		Defaults:      request.Defaults{Backend: v1alpha1.BackendKernel, TopologyKey: topologyKey},
		DefaultDomain: "default",
		Cache:         informers, Client: cached, Live: live,
	}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.Server, err = controller.New(ctx, o)
	h.must(err)
	ended := make(chan error, 1)
	go func() { ended <- informers.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if !informers.WaitForCacheSync(ctx) {
		t.Fatal("caches did not sync")
	}
	h.requests.Take()
}

// replica is another process of the service.
func (h *harness) replica() *harness {
	h.t.Helper()
	r := &harness{t: h.t, namespace: h.namespace, stub: h.stub, requests: &controlplanetest.Requests{}}
	r.serve()
	return r
}

func (h *harness) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// within is a context with a deadline.
func (h *harness) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	h.t.Cleanup(cancel)
	return ctx
}

// wantRequests compares what was asked of the API server since the last call.
func (h *harness) wantRequests(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.requests.Take()); diff != "" {
		h.t.Errorf("requests to the API server (-want +got):\n%s", diff)
	}
}

func createRequest(name string, change ...func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{
		Name:               name,
		CapacityRange:      &csi.CapacityRange{RequiredBytes: 64 << 20},
		Parameters:         map[string]string{"transport": "tcp", "ctrl-loss-tmo": "600"},
		VolumeCapabilities: []*csi.VolumeCapability{mountCapability()},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func mountCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

func sharedBlockCapability() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
	}
}

func sharedBlock(r *csi.CreateVolumeRequest) {
	r.VolumeCapabilities = []*csi.VolumeCapability{sharedBlockCapability()}
	r.Parameters[request.ParameterAllowMultiWriter] = "true"
}

// created makes a volume and forgets its requests.
func (h *harness) created(name string, change ...func(*csi.CreateVolumeRequest)) string {
	h.t.Helper()
	r, err := h.CreateVolume(h.within(enough), createRequest(name, change...))
	h.must(err)
	h.requests.Take()
	return r.GetVolume().GetVolumeId()
}

func (h *harness) publish(ctx context.Context, id, node string, c *csi.VolumeCapability) (map[string]string, error) {
	r, err := h.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: c})
	return r.GetPublishContext(), err
}

// published attaches a volume and forgets the requests.
func (h *harness) published(id, node string, c *csi.VolumeCapability) {
	h.t.Helper()
	_, err := h.publish(h.within(enough), id, node, c)
	h.must(err)
	h.requests.Take()
}

func (h *harness) unpublish(ctx context.Context, id, node string) error {
	_, err := h.ControllerUnpublishVolume(ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

func (h *harness) delete(ctx context.Context, id string) error {
	_, err := h.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

// partitions lists the volumes in the API server.
func (h *harness) partitions() []v1alpha1.NVMePartition {
	h.t.Helper()
	var list v1alpha1.NVMePartitionList
	h.must(server.Client().List(h.t.Context(), &list, client.InNamespace(h.namespace)))
	return list.Items
}

// cacheShows waits until the service's cache has the partition in that state.
func (h *harness) cacheShows(name string, is func(*v1alpha1.NVMePartition) bool) {
	h.t.Helper()
	shows(h, client.ObjectKey{Namespace: h.namespace, Name: name}, is)
}

// shows waits until the service's cache has the object in that state; a nil condition
// is that there is none.
func shows[T any, P interface {
	*T
	client.Object
}](h *harness, key client.ObjectKey, is func(P) bool) {
	h.t.Helper()
	kind, err := await.NewKind(h.within(enough), h.cache, h.cache, server.Client(), func() P { return new(T) })
	h.must(err)
	_, err = kind.WaitFor(h.within(enough), key, func(o await.Observation[P]) (bool, error) {
		return o.Found == (is != nil) && (!o.Found || is(o.Object)), nil
	})
	h.must(err)
}

// attachmentShows waits until the service's cache has the attachment of the only
// volume in that state; nil is that there is none.
func (h *harness) attachmentShows(is func(*v1alpha1.NVMeVolumeAttachment) bool) {
	h.t.Helper()
	kind, err := await.NewKind(h.within(enough), h.cache, h.cache, server.Client(), func() *v1alpha1.NVMeVolumeAttachment { return &v1alpha1.NVMeVolumeAttachment{} })
	h.must(err)
	name := identity.AttachmentName(string(h.partitions()[0].UID))
	_, err = kind.WaitFor(h.within(enough), types.NamespacedName{Namespace: h.namespace, Name: name}, func(o await.Observation[*v1alpha1.NVMeVolumeAttachment]) (bool, error) {
		if is == nil {
			return !o.Found, nil
		}
		return o.Found && is(o.Object), nil
	})
	h.must(err)
}

// attached lists the nodes of the attachments in the API server.
func (h *harness) attached() []string {
	h.t.Helper()
	var list v1alpha1.NVMeVolumeAttachmentList
	h.must(server.Client().List(h.t.Context(), &list, client.InNamespace(h.namespace)))
	nodes := []string{}
	for _, a := range list.Items {
		nodes = append(nodes, a.Spec.NodeID)
	}
	return nodes
}

// wantError checks code and text.
func wantError(t *testing.T, err error, code codes.Code, says ...string) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Errorf("code %s, want %s: %v", got, code, err)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
}

// handleWith is the handle of a volume of this name with another UID.
func (h *harness) handleWith(id string, change func(*handle.Handle)) string {
	h.t.Helper()
	parsed, err := handle.Parse(id)
	h.must(err)
	change(&parsed)
	return parsed.String()
}

const otherUID = "11111111-1111-4111-8111-111111111111"

func otherLife(h *handle.Handle) { h.UID = otherUID }
