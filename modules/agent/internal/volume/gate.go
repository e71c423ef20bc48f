package volume

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Gate opens when every volume that existed at the start was looked at once:
// until then this node's targets may not be rebuilt, and its RDMAStorageNode is
// not Ready (design.md §4, Restart). A volume that cannot be exported does not
// keep the gate shut; its own conditions say so.
type Gate struct {
	mu      sync.Mutex
	seen    map[types.NamespacedName]bool
	pending map[types.NamespacedName]bool
	open    chan struct{}
}

// NewGate returns a gate that is shut.
func NewGate() *Gate {
	return &Gate{seen: map[types.NamespacedName]bool{}, open: make(chan struct{})}
}

// Opened is closed when the gate opens.
func (g *Gate) Opened() <-chan struct{} { return g.open }

// IsOpen tells whether the gate has opened.
func (g *Gate) IsOpen() bool {
	select {
	case <-g.open:
		return true
	default:
		return false
	}
}

// Done notes that the volume was looked at.
func (g *Gate) Done(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		return // open
	}
	g.seen[key] = true
	g.settle()
}

// expect says which volumes there are.
func (g *Gate) expect(keys []types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		return
	}
	g.pending = map[types.NamespacedName]bool{}
	for _, k := range keys {
		g.pending[k] = true
	}
	g.settle()
}

func (g *Gate) settle() {
	if g.pending == nil {
		return
	}
	for k := range g.seen {
		delete(g.pending, k)
	}
	if len(g.pending) == 0 {
		g.seen = nil
		close(g.open)
	}
}

// Watch is what tells the gate, once the caches are filled.
func (g *Gate) Watch(cache client.Reader) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		all, err := Slices(ctx, cache)
		if err != nil {
			return err
		}
		var keys []types.NamespacedName
		for _, s := range all {
			keys = append(keys, client.ObjectKeyFromObject(s))
		}
		g.expect(keys)
		return nil
	})
}
