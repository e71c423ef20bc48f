package repo

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recorded are the trees of /sys that were recorded from NVMe-oF hosts and targets:
// each holds a state of the kernel that some reader has to understand.
var recorded = []string{
	"ini-all-paths-down", "ini-ctrl-lost-mounted", "ini-ctrl-lost-mounted-reconnected", "ini-deleting", "ini-discovery-ctrl",
	"ini-duplicate-uuid", "ini-head-held-disconnected", "ini-head-held-other-volume", "ini-head-held-reconnected", "ini-multipath-N",
	"ini-ns-disabled", "ini-ns-disabled-held", "ini-ns-reenabled-held", "ini-one-path-down", "ini-one-rdma", "ini-one-tcp",
	"ini-only-local-pcie", "ini-resized", "ini-resized-by-identify", "ini-two-paths", "ini-two-volumes", "ini-wrong-uuid-rebuilt",
	"ini-wrong-uuid-rebuilt-held", "storage-all-bound", "storage-one-unbound", "target-nvmet-full", "target-nvmet-one-volume",
}

// TestEveryRecordedTreeIsAFixture: each is in the testdata of a package whose tests name
// it. A tree that several modules have is the same in
// all: a module has to build alone, and so has its own copy.
func TestEveryRecordedTreeIsAFixture(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	err = filepath.WalkDir(filepath.Join(root, "modules"), func(path string, d fs.DirEntry, err error) error {
		name, archive := strings.CutSuffix(filepath.Base(path), ".tar.gz")
		if err != nil || d.IsDir() || !archive || filepath.Base(filepath.Dir(path)) != "testdata" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if other, known := found[name]; known && !bytes.Equal(other, content) {
			t.Errorf("%s differs from another tree of this name", path)
		}
		found[name] = content
		if !isUsed(t, filepath.Dir(filepath.Dir(path)), name) {
			t.Errorf("%s: no test beside it names it", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range recorded {
		if found[name] == nil {
			t.Errorf("no package has %s among its fixtures", name)
		}
		delete(found, name)
	}
	for name := range found {
		t.Errorf("%s is a fixture and not listed here", name)
	}
}

// isUsed tells whether a test in the folder names the fixture.
func isUsed(t *testing.T, folder, name string) bool {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(tests, func(path string) bool {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(content, []byte(`"`+name+`"`))
	})
}
