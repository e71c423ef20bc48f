// Package lag keeps a controller from acting twice on what it has already
// changed, when its cache does not show the change yet.
package lag

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Tracker remembers which version of each object this process replaced. A cache
// that still shows that version lags, and will bring a later one by itself; a
// decision made from it would only cost a request that is refused. The zero
// Tracker is ready.
type Tracker struct {
	mu       sync.Mutex
	replaced map[types.UID]string
}

// Replaced records that a write changed the object, which had this
// resourceVersion before.
func (t *Tracker) Replaced(object client.Object, version string) {
	if object.GetResourceVersion() == version {
		return // the write changed nothing, and the watch brings nothing
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.replaced == nil {
		t.replaced = map[types.UID]string{}
	}
	t.replaced[object.GetUID()] = version
}

// Lags tells whether the cached object is one that this process replaced.
func (t *Tracker) Lags(cached client.Object) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	version, written := t.replaced[cached.GetUID()]
	if written && version != cached.GetResourceVersion() {
		delete(t.replaced, cached.GetUID())
		return false
	}
	return written
}
