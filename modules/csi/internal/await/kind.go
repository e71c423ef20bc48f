package await

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Kind wakes those who wait for objects of one kind.
type Kind[T client.Object] struct {
	cached, live client.Reader
	newObject    func() T

	mu      sync.Mutex
	waiting map[types.NamespacedName]map[*Subscription[T]]struct{}
}

// NewKind hangs itself on the informer of the kind. Reads from cached must
// come from the same informer; live reads must come from the API server.
func NewKind[T client.Object](ctx context.Context, informers cache.Informers, cached, live client.Reader, newObject func() T) (*Kind[T], error) {
	k := &Kind[T]{
		cached: cached, live: live, newObject: newObject,
		waiting: map[types.NamespacedName]map[*Subscription[T]]struct{}{},
	}
	informer, err := informers.GetInformer(ctx, newObject())
	if err != nil {
		return nil, fmt.Errorf("informer for %T: %w", newObject(), err)
	}
	// The informer stores an object before it tells its handlers, so a waiter
	// that is woken finds in the cache what woke it, or something newer.
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    k.wake,
		UpdateFunc: func(_, object any) { k.wake(object) },
		DeleteFunc: k.wake,
	}); err != nil {
		return nil, fmt.Errorf("watch %T: %w", newObject(), err)
	}
	return k, nil
}

func (k *Kind[T]) wake(object any) {
	if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	o, ok := object.(client.Object)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for s := range k.waiting[client.ObjectKeyFromObject(o)] {
		s.wake()
	}
}

// Subscribe begins to listen for events of one object. The caller closes it.
func (k *Kind[T]) Subscribe(key types.NamespacedName) *Subscription[T] {
	s := &Subscription[T]{kind: k, key: key, events: make(chan struct{}, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.waiting[key] == nil {
		k.waiting[key] = map[*Subscription[T]]struct{}{}
	}
	k.waiting[key][s] = struct{}{}
	return s
}

// WaitFor subscribes and waits, for those who write nothing in between.
func (k *Kind[T]) WaitFor(ctx context.Context, key types.NamespacedName, done Predicate[T]) (T, error) {
	s := k.Subscribe(key)
	defer s.Close()
	return s.Until(ctx, done)
}
