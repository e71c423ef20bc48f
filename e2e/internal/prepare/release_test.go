package prepare

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/distort-io/distort/e2e/internal/oci"
)

// TestReleaseImages: every program becomes an image of its architecture, but for
// those whose tools are not there.
func TestReleaseImages(t *testing.T) {
	base, programs, out := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "images")
	if _, err := oci.BuildLayer(filepath.Join(base, toolsLayer), []oci.Entry{{Path: "/usr/sbin/blkid", Content: "tool"}}); err != nil {
		t.Fatal(err)
	}
	other := map[bool]string{true: "arm64", false: "amd64"}[runtime.GOARCH == "amd64"]
	for _, name := range []string{"distort-manager", "distort-agent", "distort-csi"} {
		for _, architecture := range []string{runtime.GOARCH, other} {
			if err := os.WriteFile(filepath.Join(programs, name+"_linux_"+architecture), []byte(name+architecture), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	var progress strings.Builder
	if err := ReleaseImages(Artifacts{StepBaseImages: base}, filepath.Join("..", "..", ".."), programs, out, &progress); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 4 {
		t.Errorf("%v, want the manager for both architectures and the others for %s", found, runtime.GOARCH)
	}
	if left := strings.Count(progress.String(), "left out"); left != 2 {
		t.Errorf("%d images are said to be left out, want 2:\n%s", left, progress.String())
	}
	for _, file := range found {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, architecture, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ImageSuffix), "_linux_")
		if !strings.Contains(string(raw), `"architecture":"`+architecture+`"`) {
			t.Errorf("%s does not say that it is for %s", file, architecture)
		}
		if manager := strings.Contains(file, "manager"); strings.Contains(string(raw), "usr/sbin/blkid") == manager {
			t.Errorf("%s: tools are where they are not needed, or not where they are", file)
		}
	}
}
