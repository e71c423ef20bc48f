package controlplanetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// StorageNode is where the stub places volumes unless told otherwise, on its
// drive or on its pool PoolGUID, in the network domain Domain.
const (
	StorageNode = "storage-1"
	PoolGUID    = "1234567890"
	Domain      = "default"
)

// SerialOn is the drive of a node that the stub places volumes on. No two nodes
// have one of the same serial number, on which nothing would be placed.
func SerialOn(node string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(node))
	return fmt.Sprintf("SN-%016x", h.Sum64()) // 20 bytes at most
}

// Behaviour is what the stub does. The zero value does everything at once.
type Behaviour struct {
	// Pools has the stub play Volumes too. They have no namespace, so one such stub
	// may run at a time; what it is when the stub starts counts.
	Pools bool
	// StorageNode is where volumes are placed; empty means StorageNode.
	StorageNode string
	// NoCandidate, when set, is the message with which nothing is placed.
	NoCandidate string
	// Refuse, when set, is the reason of Provisioned=False instead of a volume.
	Refuse string
	// RefuseSnapshot, when set, is the reason of ReadyToUse=False instead of a
	// snapshot.
	RefuseSnapshot string
	// HoldExport, HoldGrant, HoldRevoke and HoldDelete leave that undone;
	// HoldRevoke says which proof is missing.
	HoldExport, HoldGrant, HoldDelete bool
	// DeleteReason is what HoldDelete says; empty means Deleting.
	DeleteReason string
	HoldRevoke   string
	// GrantReason, when set, is the reason of AccessReady=False instead of
	// access.
	GrantReason string
	// MaxSize, when set, is how many bytes a volume can have after a growth. One
	// to more is refused with Resized=False and GrowthReason, or left undone when
	// that is empty.
	MaxSize      int64
	GrowthReason string
	// ModifyReason, when set, is the reason of Modified=False instead of another
	// compression.
	ModifyReason string
	// Exported, Unexported, Granted and Revoked, when set, are told before the API
	// is. Exported is told of growths too.
	Exported, Unexported func(v v1alpha1.Slice) error
	Granted, Revoked     func(v v1alpha1.Slice, a *v1alpha1.NVMeVolumeAttachment) error
}

// Stub plays manager and agent in one namespace, and for all Volumes.
type Stub struct {
	namespace string
	client    client.Client
	queue     workqueue.TypedRateLimitingInterface[item]

	mu        sync.Mutex
	behaviour Behaviour
	known     map[item]bool
}

// item is an attachment, a snapshot, or the volume of a kind.
type item struct {
	attachment, snapshot bool
	kind                 v1alpha1.VolumeKind
	key                  types.NamespacedName
}

// Play starts a stub that ends with the test.
func (s *Server) Play(t testing.TB, namespace string, b Behaviour) *Stub {
	t.Helper()
	stub := &Stub{
		namespace: namespace, client: s.client, behaviour: b, known: map[item]bool{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[item]()),
	}
	informers, err := cache.New(s.Config(), cache.Options{Scheme: s.scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	played := []client.Object{&v1alpha1.NVMePartition{}, &v1alpha1.NVMeVolumeAttachment{}}
	if b.Pools {
		played = append(played, &v1alpha1.Volume{}, &v1alpha1.Snapshot{})
	}
	for _, o := range played {
		informer, err := informers.GetInformer(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: stub.enqueue, UpdateFunc: func(_, o any) { stub.enqueue(o) }, DeleteFunc: stub.enqueue,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := informers.Start(ctx); err != nil {
			t.Error("stub:", err)
		}
	})
	// One worker: manager and agent are one mind here.
	running.Go(func() {
		for {
			i, shutdown := stub.queue.Get()
			if shutdown {
				return
			}
			if err := stub.work(ctx, i); err != nil && ctx.Err() == nil {
				stub.queue.AddRateLimited(i)
			} else {
				stub.queue.Forget(i)
			}
			stub.queue.Done(i)
		}
	})
	t.Cleanup(func() {
		cancel()
		stub.queue.ShutDown()
		running.Wait()
	})
	return stub
}

// Become changes what the stub does, from now on and for what it left undone.
func (s *Stub) Become(b Behaviour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.behaviour = b
	for i := range s.known {
		s.queue.Add(i)
	}
}

func (s *Stub) now() Behaviour {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behaviour
}

func (s *Stub) enqueue(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	i := item{key: client.ObjectKeyFromObject(o)}
	switch o := o.(type) {
	case v1alpha1.Slice:
		i.kind = o.GetReference().Kind
	case *v1alpha1.Snapshot:
		i.snapshot = true
	default:
		i.attachment = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[i] = true
	s.queue.Add(i)
	if i.attachment {
		// The volume may have waited for its attachment to go.
		for k := range s.known {
			if k.kind != "" {
				s.queue.Add(k)
			}
		}
	}
}

func (s *Stub) work(ctx context.Context, i item) error {
	if i.attachment {
		var a v1alpha1.NVMeVolumeAttachment
		if err := s.client.Get(ctx, i.key, &a); err != nil {
			return client.IgnoreNotFound(err)
		}
		return s.attachment(ctx, s.now(), &a)
	}
	if i.snapshot {
		var o v1alpha1.Snapshot
		if err := s.client.Get(ctx, i.key, &o); err != nil {
			return client.IgnoreNotFound(err)
		}
		return s.takeOrDrop(ctx, s.now(), &o)
	}
	v := v1alpha1.NewSlice(i.kind)
	if err := s.client.Get(ctx, i.key, v); err != nil {
		return client.IgnoreNotFound(err)
	}
	return s.volume(ctx, s.now(), v)
}
