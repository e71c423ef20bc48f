package controller

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/inflight"
	"github.com/distort-io/distort/modules/csi/internal/inventory"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// Options configure a Server. Every field is required but NewAttachmentID.
type Options struct {
	// Namespace holds the objects of volumes and attachments that have one.
	Namespace string
	// Defaults are what a request that does not say gets.
	Defaults request.Defaults
	// DefaultDomain is the network domain of a storage node that no StorageNode
	// describes.
	DefaultDomain v1alpha1.DomainName
	// Cache holds the informers of NVMePartition, Volume, NVMeVolumeAttachment,
	// CSINode and of the inventory; CacheOptions says how to make it.
	Cache cache.Cache
	// Client reads from Cache and writes to the API server; Live reads from the
	// API server.
	Client client.Client
	Live   client.Reader
	// NewAttachmentID makes a random UUID; nil means the usual one.
	NewAttachmentID func() string
}

// Server implements csi.ControllerServer.
type Server struct {
	csi.UnimplementedControllerServer

	namespace       string
	defaults        request.Defaults
	client          client.Client
	live            client.Reader
	inventory       *inventory.Inventory
	families        []*family
	snapshots       *await.Kind[*v1alpha1.Snapshot]
	attachments     *await.Kind[*v1alpha1.NVMeVolumeAttachment]
	newAttachmentID func() string
	busy            inflight.Set
}

var _ csi.ControllerServer = (*Server)(nil)

// New registers what the service needs with the cache, which the caller
// starts.
func New(ctx context.Context, o Options) (*Server, error) {
	if o.Namespace == "" || o.Defaults.Backend == "" || o.Defaults.TopologyKey == "" || o.DefaultDomain == "" ||
		o.Cache == nil || o.Client == nil || o.Live == nil {
		return nil, fmt.Errorf("controller service: namespace, defaults, default domain, cache, client and live reader are required")
	}
	o.Defaults.Namespace = o.Namespace
	s := &Server{
		namespace: o.Namespace, defaults: o.Defaults,
		client: o.Client, live: o.Live, newAttachmentID: o.NewAttachmentID,
	}
	if s.newAttachmentID == nil {
		s.newAttachmentID = newUUID
	}
	var err error
	for _, kind := range []v1alpha1.VolumeKind{v1alpha1.KindNVMePartition, v1alpha1.KindVolume} {
		f, err := newFamily(ctx, o, kind)
		if err != nil {
			return nil, err
		}
		s.families = append(s.families, f)
	}
	if s.snapshots, err = await.NewKind(ctx, o.Cache, o.Client, o.Live, newSnapshot); err != nil {
		return nil, err
	}
	if s.attachments, err = await.NewKind(ctx, o.Cache, o.Client, o.Live, newAttachment); err != nil {
		return nil, err
	}
	if s.inventory, err = inventory.New(ctx, o.Cache, o.Client, o.DefaultDomain); err != nil {
		return nil, err
	}
	return s, registerReads(ctx, o.Cache)
}

// CacheOptions are those of a cache that sees what the service needs: of the
// volumes only those in the driver's namespace.
func CacheOptions(scheme *runtime.Scheme, namespace string) cache.Options {
	return cache.Options{
		Scheme:            scheme,
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
		ByObject:          inventory.ByObject(),
		DefaultTransform:  cache.TransformStripManagedFields(),
	}
}

func newSnapshot() *v1alpha1.Snapshot               { return &v1alpha1.Snapshot{} }
func newAttachment() *v1alpha1.NVMeVolumeAttachment { return &v1alpha1.NVMeVolumeAttachment{} }

func (s *Server) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

// guard takes the volume whose object has this name.
func (s *Server) guard(objectName string) (release func(), err error) {
	release, ok := s.busy.TryAcquire(objectName)
	if !ok {
		return nil, refusef(errBusy, "another operation on volume %s is running", objectName)
	}
	return release, nil
}
