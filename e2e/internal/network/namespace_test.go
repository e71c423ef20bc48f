package network

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestProcessesOfANamespace uses files in place of namespaces: like these, they
// are the same if device and inode are.
func TestProcessesOfANamespace(t *testing.T) {
	run, proc := t.TempDir(), t.TempDir()
	mine, other := filepath.Join(run, "mine"), filepath.Join(run, "other")
	for _, path := range []string{mine, other} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pid, namespace := range map[string]string{"10": mine, "11": other, "12": mine, "self": mine} {
		dir := filepath.Join(proc, pid, "ns")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(namespace, filepath.Join(dir, "net")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(proc, "13"), 0o755); err != nil {
		t.Fatal(err)
	}
	namespace := Namespace{name: "mine", runDir: run, procDir: proc}
	got, err := namespace.Processes()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]int{10, 12}, got); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	none := Namespace{name: "none", runDir: run, procDir: proc}
	if got, err := none.Processes(); err != nil || len(got) != 0 || none.Exists() {
		t.Errorf("a namespace that is not there: processes %v, error %v, exists %t", got, err, none.Exists())
	}
}
