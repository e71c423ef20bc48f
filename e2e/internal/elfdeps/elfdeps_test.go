package elfdeps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes a root with files (content "x") and links.
func tree(t *testing.T, files []string, links map[string]string) Tree {
	t.Helper()
	root := t.TempDir()
	for _, name := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	return NewTree(root)
}

func TestHostPathFollowsLinksInsideTheTree(t *testing.T) {
	root := tree(t, []string{"usr/lib/libc.so.6", "usr/bin/real"}, map[string]string{
		"lib":           "usr/lib",
		"usr/bin/abs":   "/usr/bin/rel",
		"usr/bin/rel":   "../bin/real",
		"usr/bin/above": "../../../../usr/bin/real",
		"usr/bin/loop":  "loop",
	})
	for name, want := range map[string]string{
		"/lib/libc.so.6": "usr/lib/libc.so.6",
		"/usr/bin/abs":   "usr/bin/real",
		"/usr/bin/above": "usr/bin/real",
	} {
		got, err := root.HostPath(name)
		if err != nil || got != filepath.Join(root.root, want) {
			t.Errorf("%s: got %q, %v; want %s", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"/usr/bin/loop": "symbolic links", "/usr/bin/none": "no such file"} {
		if _, err := root.HostPath(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}

func TestLibrariesOfAProgramThatIsNoProgram(t *testing.T) {
	root := tree(t, []string{"usr/bin/script"}, nil)
	if _, err := root.Libraries([]string{"/usr/bin/script"}); err == nil || !strings.Contains(err.Error(), "/usr/bin/script") {
		t.Errorf("got %v, want an error that names the file", err)
	}
}
