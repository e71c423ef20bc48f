package written_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/agent/internal/written"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func object(uid, version string) *v1alpha1.NVMeDevice {
	return &v1alpha1.NVMeDevice{ObjectMeta: metav1.ObjectMeta{Name: "d", UID: types.UID(uid), ResourceVersion: version}}
}

func TestLatestIsTheWriteUntilTheCacheMoves(t *testing.T) {
	for name, c := range map[string]struct {
		notes  [][2]*v1alpha1.NVMeDevice
		cached *v1alpha1.NVMeDevice
		want   string
	}{
		"nothing written":                             {nil, object("a", "1"), "1"},
		"cache is behind one write":                   {[][2]*v1alpha1.NVMeDevice{{object("a", "1"), object("a", "2")}}, object("a", "1"), "2"},
		"cache is behind two writes":                  {[][2]*v1alpha1.NVMeDevice{{object("a", "1"), object("a", "2")}, {object("a", "2"), object("a", "3")}}, object("a", "1"), "3"},
		"cache has the write":                         {[][2]*v1alpha1.NVMeDevice{{object("a", "1"), object("a", "2")}}, object("a", "2"), "2"},
		"cache has somebody else's write from before": {[][2]*v1alpha1.NVMeDevice{{object("a", "1"), object("a", "3")}}, object("a", "2"), "3"},
		"cache has somebody else's later write":       {[][2]*v1alpha1.NVMeDevice{{object("a", "1"), object("a", "2")}}, object("a", "5"), "5"},
		"object was made anew":                        {[][2]*v1alpha1.NVMeDevice{{object("a", "1"), object("a", "2")}}, object("b", "1"), "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var m written.Memory[*v1alpha1.NVMeDevice]
			for _, n := range c.notes {
				m.Note(n[0], n[1])
			}
			if got := m.Latest(c.cached).ResourceVersion; got != c.want {
				t.Errorf("version = %s, want %s", got, c.want)
			}
		})
	}
}

func TestAWriteIsForgottenOnceTheCacheHasMoved(t *testing.T) {
	var m written.Memory[*v1alpha1.NVMeDevice]
	m.Note(object("a", "1"), object("a", "2"))
	m.Latest(object("a", "3"))
	if got := m.Latest(object("a", "1")).ResourceVersion; got != "1" {
		t.Errorf("version = %s, want the cached 1", got)
	}
	m.Note(object("a", "1"), object("a", "2"))
	m.Forget(types.NamespacedName{Name: "d"})
	if got := m.Latest(object("a", "1")).ResourceVersion; got != "1" {
		t.Errorf("version = %s after Forget, want the cached 1", got)
	}
}
