package lab

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestReadObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "objects.yaml")
	const text = "# a comment\n\n---\nkind: ServiceAccount\napiVersion: v1\nmetadata: {name: a}\n---\nkind: ClusterRole\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {name: b}\n---\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := readObjects(path)
	if err != nil || len(objects) != 2 || objects[0].GetName() != "a" || objects[1].GetKind() != "ClusterRole" {
		t.Errorf("objects = %v, %v", objects, err)
	}
	if err := os.WriteFile(path, []byte("kind: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readObjects(path); err == nil {
		t.Error("a broken file was read")
	}
}

func TestEstablished(t *testing.T) {
	for status, want := range map[string]bool{"True": true, "False": false, "": false} {
		kind := &unstructured.Unstructured{Object: map[string]any{}}
		if status != "" {
			kind.Object["status"] = map[string]any{"conditions": []any{
				map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": status},
			}}
		}
		if got := established(kind); got != want {
			t.Errorf("condition %q: %t", status, got)
		}
	}
}
