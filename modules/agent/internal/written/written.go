// Package written lets a reconciler see its own writes before its cache does.
// Without it, a pass that is woken while the last write is on its way to the cache
// would find the old status, take what it sees for news, and write it again.
package written

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memory holds the last write of each object of one kind. It is safe for
// concurrent use; the zero value is empty.
type Memory[T client.Object] struct {
	mu   sync.Mutex
	last map[types.NamespacedName]entry[T]
}

type entry[T client.Object] struct {
	uid types.UID
	// base is the version that the cache had when the write was made.
	base  string
	after T
}

// Note remembers that a write turned before into after, as the API server
// answered it.
func (m *Memory[T]) Note(before, after T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(after)
	base := before.GetResourceVersion()
	if e, ok := m.last[key]; ok && e.uid == after.GetUID() && e.after.GetResourceVersion() == base {
		base = e.base // a second write, before the cache has seen the first
	}
	if m.last == nil {
		m.last = map[types.NamespacedName]entry[T]{}
	}
	m.last[key] = entry[T]{after.GetUID(), base, after.DeepCopyObject().(T)}
}

// Latest returns the object as it was written when what the cache has is older,
// also if it is somebody else's change from just before, else the cached one.
func (m *Memory[T]) Latest(cached T) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	e, ok := m.last[key]
	switch {
	case !ok:
		return cached
	case e.uid == cached.GetUID() && (e.base == cached.GetResourceVersion() || older(cached, e.after)):
		return e.after.DeepCopyObject().(T)
	}
	delete(m.last, key)
	return cached
}

// older tells whether a is an earlier version of the object than b. API servers
// before Kubernetes 1.35 do not promise that versions can be compared; then only
// the version that the write was made from is known to be older.
func older(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err == nil && order < 0
}

// Forget drops what is remembered of an object that is gone.
func (m *Memory[T]) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.last, key)
}
