package volume

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func key(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

func TestGateOpensWhenAllWereLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		steps func(*Gate)
		open  bool
	}{
		"nothing known yet":        {func(g *Gate) { g.Done(key("a")) }, false},
		"nothing to look at":       {func(g *Gate) { g.expect(nil) }, true},
		"one is missing":           {func(g *Gate) { g.expect([]types.NamespacedName{key("a"), key("b")}); g.Done(key("a")) }, false},
		"all looked at afterwards": {func(g *Gate) { g.expect([]types.NamespacedName{key("a")}); g.Done(key("a")) }, true},
		"all looked at before":     {func(g *Gate) { g.Done(key("a")); g.expect([]types.NamespacedName{key("a")}) }, true},
		"a later one does not shut it": {func(g *Gate) {
			g.expect([]types.NamespacedName{key("a")})
			g.Done(key("a"))
			g.Done(key("b"))
			g.expect([]types.NamespacedName{key("c")})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGate()
			c.steps(g)
			if g.IsOpen() != c.open {
				t.Errorf("open = %v, want %v", g.IsOpen(), c.open)
			}
		})
	}
}
