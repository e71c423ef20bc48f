package request_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/csi/internal/request"
)

// TestReferenceHasEveryParameter: the page in docs/reference, which is made from the
// sources, has exactly the parameters that a StorageClass may have.
func TestReferenceHasEveryParameter(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "reference", "parameters.md"))
	if os.IsNotExist(err) {
		t.Skip("the module is here without its repository")
	}
	if err != nil {
		t.Fatal(err)
	}
	classes, _, _ := strings.Cut(string(page), "## VolumeAttributesClass")
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(classes, -1) {
		got = append(got, row[1])
	}
	slices.Sort(got)
	if diff := cmp.Diff(request.ParameterKeys(), got); diff != "" {
		t.Error(diff)
	}
}
