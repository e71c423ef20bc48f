package apiserver

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/demo"
	"github.com/distort-io/distort/e2e/internal/pages"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// anyKind is a client for objects of every kind that the API server has.
func anyKind(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(server.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"distort-system", demo.Namespace} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := client.IgnoreAlreadyExists(c.Create(t.Context(), object)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// manifests are the objects that documents show, with names that an API server takes:
// what a reader has to fill in is written in capitals.
func manifests(t *testing.T) []pages.Manifest {
	t.Helper()
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	var found []pages.Manifest
	for _, folder := range []string{"docs", "charts/distort/README.md", "modules"} {
		all, err := pages.All(root, folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			of, err := p.Manifests()
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, of...)
		}
	}
	for _, m := range found {
		m.Object.SetName(strings.ToLower(m.Object.GetName()))
	}
	return found
}

// TestManifestsOfDocuments: the API server takes every object that a document shows, as
// it stands: rules of our kinds included, and without a field that it does not know.
func TestManifestsOfDocuments(t *testing.T) {
	c := anyKind(t)
	kinds := map[string]int{}
	for _, m := range manifests(t) {
		err := makeObject(t, c, m.Object, client.DryRunAll)
		if meta.IsNoMatchError(err) && !strings.HasPrefix(m.Object.GetAPIVersion(), "storage.distort.io/") {
			continue // somebody else's kind, such as VolumeSnapshot
		}
		if err != nil {
			t.Errorf("%s: %s %s: %v", m.Position, m.Object.GetKind(), m.Object.GetName(), err)
		}
		kinds[m.Object.GetKind()]++
	}
	for _, kind := range []string{"NVMeDeviceClaim", "StorageNode", "StorageClass", "PersistentVolumeClaim", "Pod"} {
		if kinds[kind] == 0 {
			t.Errorf("no document shows a %s: found %v", kind, kinds)
		}
	}
}

// TestManifestsAreChecked: the test above would notice.
func TestManifestsAreChecked(t *testing.T) {
	c := anyKind(t)
	for name, test := range map[string]struct {
		spec map[string]any
		want string
	}{
		"an unknown field": {map[string]any{"serialNumber": "S1", "serial": "S1"}, `unknown field "spec.serial"`},
		"a broken rule":    {map[string]any{"serialNumber": ""}, "spec.serialNumber"},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "storage.distort.io/v1alpha1", "kind": "NVMeDeviceClaim",
			"metadata": map[string]any{"name": "drive", "namespace": "distort-system"}, "spec": test.spec,
		}}
		if err := makeObject(t, c, object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// makeObject makes an object, in namespace default unless it says another.
func makeObject(t *testing.T, c client.Client, object *unstructured.Unstructured, options ...client.CreateOption) error {
	t.Helper()
	object = object.DeepCopy()
	mapping, err := c.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace && object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return c.Create(t.Context(), object, append(options, client.FieldValidation(metav1.FieldValidationStrict))...)
}
