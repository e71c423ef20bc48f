package install

import (
	"strings"
	"testing"
)

// A value that is turned on is a boolean, which the chart's schema asks for; one that
// is set is a text, whatever it looks like.
func TestValuesKeepTheirTypes(t *testing.T) {
	got := strings.Join(Chart{Repo: "/repo", Set: []string{"a.b=1"}, Values: []string{"snapshots.enabled=true"}}.upgrade(), " ")
	for _, want := range []string{"/repo/charts/distort ", "--values /repo/e2e/values.yaml ", "--set-string a.b=1 ", "--set snapshots.enabled=true"} {
		if !strings.Contains(got, want) {
			t.Errorf("helm %s has no %q", got, want)
		}
	}
}
