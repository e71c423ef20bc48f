package partition

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Gate opens when every partition that existed at the start was looked at once:
// until then this node's targets may not be rebuilt, and its RDMAStorageNode is
// not Ready (design.md §4, Restart). A partition that cannot be exported does not
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

// Done notes that the partition was looked at.
func (g *Gate) Done(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.seen == nil {
		return // open
	}
	g.seen[key] = true
	g.settle()
}

// expect says which partitions there are.
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

// watch is what tells the gate, once the caches are filled.
func (g *Gate) watch(cache client.Reader) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		var all v1alpha1.NVMePartitionList
		if err := cache.List(ctx, &all); err != nil {
			return fmt.Errorf("list partitions of this node: %w", err)
		}
		var keys []types.NamespacedName
		for _, p := range all.Items {
			keys = append(keys, client.ObjectKeyFromObject(&p))
		}
		g.expect(keys)
		return nil
	})
}
