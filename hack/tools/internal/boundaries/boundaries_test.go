package boundaries

import (
	"testing"

	"github.com/distort-io/distort/hack/tools/internal/repo"
)

func TestTreeKeepsItsBoundaries(t *testing.T) {
	tree, err := repo.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Modules) != len(mayImport) {
		t.Errorf("%d published modules, rules for %d", len(tree.Modules), len(mayImport))
	}
	if err := Check(tree); err != nil {
		t.Error(err)
	}
}

func TestImportRules(t *testing.T) {
	const ours = repo.ModulePrefix
	for name, tc := range map[string]struct {
		dir, path string
		refused   bool
	}{
		"csi may import api":                     {"modules/csi", ours + "modules/api/v1alpha1", false},
		"csi may import itself":                  {"modules/csi", ours + "modules/csi/internal/app", false},
		"csi must not import nvmeof":             {"modules/csi", ours + "modules/nvmeof", true},
		"csi must not import agent":              {"modules/csi", ours + "modules/agent/internal/app", true},
		"manager must not import csi":            {"modules/manager", ours + "modules/csi/internal/await", true},
		"agent may import nvmeof":                {"modules/agent", ours + "modules/nvmeof/kernel", false},
		"nvmeof must not import api":             {"modules/nvmeof", ours + "modules/api/identity", true},
		"nvmeof must not import Kubernetes":      {"modules/nvmeof", "k8s.io/api/core/v1", true},
		"nvmeof must not import the OTel SDK":    {"modules/nvmeof", "go.opentelemetry.io/otel/sdk/trace", true},
		"nvmeof may import the standard lib":     {"modules/nvmeof", "net/netip", false},
		"api may import apimachinery":            {"modules/api", "k8s.io/apimachinery/pkg/types", false},
		"api must not import client-go":          {"modules/api", "k8s.io/client-go/rest", true},
		"nobody may import e2e":                  {"modules/agent", ours + "e2e/internal/guest", true},
		"a name that only starts alike is other": {"modules/agent", ours + "modules/apiextra", true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkImport(tc.dir, tc.path); (err != nil) != tc.refused {
				t.Errorf("checkImport(%q, %q) = %v, want refused: %v", tc.dir, tc.path, err, tc.refused)
			}
		})
	}
}
