package standalone

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func TestProxyServesEveryModuleAtItsVersion(t *testing.T) {
	tree, err := repo.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	if err := publish(tree, proxy); err != nil {
		t.Fatal(err)
	}
	for _, m := range tree.Modules {
		escaped, err := module.EscapePath(m.Path)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(proxy, escaped, "@v")
		if list, err := os.ReadFile(filepath.Join(dir, "list")); err != nil || strings.TrimSpace(string(list)) != m.Version {
			t.Errorf("%s: list = %q, %v, want %s", m.Path, list, err, m.Version)
		}
		archive, err := zip.OpenReader(filepath.Join(dir, m.Version+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, file := range archive.File {
			names[file.Name] = true
		}
		archive.Close()
		if want := m.Path + "@" + m.Version + "/go.mod"; !names[want] {
			t.Errorf("%s: the archive lacks %s", m.Path, want)
		}
	}
}

func TestTidyComparesWithoutWriting(t *testing.T) {
	for name, tc := range map[string]struct {
		have, want string
		diff       bool
		refused    bool
		after      string
	}{
		"a tidy file passes":                {"module a\n", "module a\n", true, false, "module a\n"},
		"an untidy file is refused as diff": {"module a\n", "module b\n", true, true, "module a\n"},
		"an untidy file is written":         {"module a\n", "module b\n", false, false, "module b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			source, scratch := t.TempDir(), t.TempDir()
			write(t, filepath.Join(source, "go.mod"), tc.have)
			write(t, filepath.Join(scratch, "go.mod"), tc.want)
			err := compareOrCopy(scratch, source, "modules/x", tc.diff)
			if (err != nil) != tc.refused {
				t.Fatalf("compareOrCopy = %v, want refused: %v", err, tc.refused)
			}
			if after, _ := os.ReadFile(filepath.Join(source, "go.mod")); string(after) != tc.after {
				t.Errorf("go.mod is %q afterwards, want %q", after, tc.after)
			}
		})
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
