package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHeadersAreBoundToWhereTheyAre(t *testing.T) {
	src := t.TempDir()
	headers, makefile := filepath.Join(src, "linux-headers-6-amd64"), filepath.Join(src, "linux-headers-6-amd64", "Makefile")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(makefile, "include /usr/src/linux-headers-6-common/Makefile\n")
	write(filepath.Join(headers, "vmlinux"), "ELF")
	for range 2 { // what was bound stays so
		common, err := bindHeaders(headers)
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(src, "linux-headers-6-common"); common != want {
			t.Errorf("common headers are %q, want %q", common, want)
		}
		text, err := os.ReadFile(makefile)
		if want := "include " + filepath.Join(src, "linux-headers-6-common", "Makefile") + "\n"; err != nil || string(text) != want {
			t.Errorf("the makefile is %q (%v), want %q", text, err, want)
		}
		if _, err := os.Stat(filepath.Join(headers, "vmlinux")); !os.IsNotExist(err) {
			t.Errorf("vmlinux is still there: %v", err)
		}
	}
	write(makefile, "all:\n")
	if _, err := bindHeaders(headers); err == nil || !strings.Contains(err.Error(), makefile) {
		t.Errorf("headers of another kind: %v", err)
	}
}
