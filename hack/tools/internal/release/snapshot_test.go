package release

import (
	"os"
	"strings"
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

// TestProgramOfTheWorkspaceIsNotReleased: what was built from the tree has no
// version, this test too.
func TestProgramOfTheWorkspaceIsNotReleased(t *testing.T) {
	tree, err := repo.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := released(self, tree); err == nil || !strings.Contains(err.Error(), "(devel)") {
		t.Errorf("a program of the workspace is taken for a released one: %v", err)
	}
}
