package prepare

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanTakesWhatIsNeededInOrderOfTheCatalogue(t *testing.T) {
	catalogue := []Step{{Name: "a"}, {Name: "b", Needs: []string{"a"}}, {Name: "c"}, {Name: "d", Needs: []string{"b", "c"}}, {Name: "e"}, {Name: "f", Needs: []string{"a"}, OnDemand: true}}
	tests := map[string]struct {
		only, want []string
	}{
		"everything":           {nil, []string{"a", "b", "c", "d", "e"}},
		"one on demand":        {[]string{"f"}, []string{"a", "f"}},
		"one without needs":    {[]string{"c"}, []string{"c"}},
		"one with needs":       {[]string{"d"}, []string{"a", "b", "c", "d"}},
		"two that share needs": {[]string{"e", "b"}, []string{"a", "b", "e"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			steps, err := Plan(catalogue, test.only)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(steps)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Plan(catalogue, []string{"x"}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("unknown step: got %v", err)
	}
}

// TestCatalogueIsSound finds names that are used twice, needs that do not
// exist, and circles: a plan of everything would not end.
func TestCatalogueIsSound(t *testing.T) {
	for _, given := range []string{"", t.TempDir()} {
		t.Setenv(EnvKubeBinDir, given)
		steps := Catalogue()
		place := map[string]int{}
		for i, step := range steps {
			if _, ok := place[step.Name]; ok {
				t.Errorf("two steps are called %q", step.Name)
			}
			place[step.Name] = i
		}
		done := map[string]bool{}
		for range steps {
			for _, step := range steps {
				ready := true
				for _, need := range step.Needs {
					if _, ok := place[need]; !ok {
						t.Errorf("step %q needs %q, which does not exist", step.Name, need)
					}
					ready = ready && done[need]
				}
				done[step.Name] = done[step.Name] || ready
			}
		}
		for _, step := range steps {
			if !done[step.Name] {
				t.Errorf("step %q can never run", step.Name)
			}
		}
		for _, bare := range []bool{true, false} {
			if _, err := Plan(steps, ClusterSteps(bare)); err != nil {
				t.Error(err)
			}
		}
	}
}
