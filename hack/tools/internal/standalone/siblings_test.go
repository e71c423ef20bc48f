package standalone

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// A sibling that grew since an older tree was built on this machine is built as
// it is now: its version did not change, and the go command remembers versions.
func TestASiblingIsBuiltAsItIsNow(t *testing.T) {
	const prefix = repo.ModulePrefix + "siblings/"
	root := t.TempDir()
	write(t, filepath.Join(root, "lib", "go.mod"), "module "+prefix+"lib\n\ngo 1.26\n")
	write(t, filepath.Join(root, "lib", "old.go"), "package lib\n\nconst Old = 1\n")
	write(t, filepath.Join(root, "user", "go.mod"),
		"module "+prefix+"user\n\ngo 1.26\n\nrequire "+prefix+"lib v0.1.0\n")
	write(t, filepath.Join(root, "user", "user.go"),
		"package user\n\nimport \""+prefix+"lib\"\n\nconst Have = lib.Old\n")
	tree := &repo.Tree{Root: root}
	for _, dir := range []string{"lib", "user"} {
		tree.Modules = append(tree.Modules, repo.Module{Dir: dir, Path: prefix + dir, Version: "v0.1.0"})
	}
	cache := t.TempDir()
	t.Cleanup(func() {
		if err := makeWritable(cache); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("GOMODCACHE", cache)
	t.Setenv("GOPROXY", "off")
	build := func() {
		t.Helper()
		var out bytes.Buffer
		opts := Options{Dirs: []string{"user"}, BuildOnly: true, Out: &out}
		if err := Run(t.Context(), tree, opts); err != nil {
			t.Fatalf("%v\n%s", err, &out)
		}
	}
	build()
	write(t, filepath.Join(root, "lib", "new.go"), "package lib\n\nconst New = 2\n")
	write(t, filepath.Join(root, "user", "user.go"),
		"package user\n\nimport \""+prefix+"lib\"\n\nconst Have = lib.New\n")
	build()
}
