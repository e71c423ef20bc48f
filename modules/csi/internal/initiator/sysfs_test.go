package initiator

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Finding a subsystem opens nothing of the others once they are known: a node
// with a thousand connections pays for its own (design.md §9).
func TestLookupOpensNothingOfOtherSubsystems(t *testing.T) {
	root := t.TempDir()
	attributeOf := func(i int) string {
		return filepath.Join(root, "class/nvme-subsystem", fmt.Sprintf("nvme-subsys%d", i), "subsysnqn")
	}
	nqn := func(i int) string { return fmt.Sprintf("nqn.2026-02.io.distort:volume-%d", i) }
	make := func(i int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(attributeOf(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(attributeOf(i), []byte(nqn(i)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		make(i)
	}
	s := sysfs{root: root}
	find := func(i int) {
		t.Helper()
		if got, err := s.subsystems(nqn(i)); err != nil || len(got) != 1 || filepath.Base(got[0]) != fmt.Sprintf("nvme-subsys%d", i) {
			t.Fatalf("subsystem %d: %q, %v", i, got, err)
		}
	}
	find(7)
	for i := range 50 { // whoever reads one now fails
		if err := os.Remove(attributeOf(i)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(attributeOf(i), 0o755); err != nil {
			t.Fatal(err)
		}
		restore(t, filepath.Dir(attributeOf(i)), s.nqns[fmt.Sprintf("nvme-subsys%d", i)].changed)
	}
	find(8)
	make(50)
	find(50)
}

// restore gives a directory its time back, which sysfs does not change either.
func restore(t *testing.T, dir string, nanoseconds int64) {
	t.Helper()
	at := time.Unix(0, nanoseconds)
	if err := os.Chtimes(dir, at, at); err != nil {
		t.Fatal(err)
	}
}
