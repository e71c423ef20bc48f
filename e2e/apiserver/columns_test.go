package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// crdOf is the CRD of an object.
func crdOf(t *testing.T, object client.Object) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for _, crd := range server.crds {
		if crd.Spec.Names.Kind == kindOf(object) {
			return crd
		}
	}
	t.Fatalf("no CRD for %T", object)
	return nil
}

// createComplete creates the object with its status.
func createComplete(t *testing.T, object client.Object) {
	t.Helper()
	status := object.DeepCopyObject().(client.Object)
	if err := create(t, object); err != nil {
		t.Fatalf("create: %v", err)
	}
	status.SetName(object.GetName())
	status.SetResourceVersion(object.GetResourceVersion())
	if err := server.client.Status().Update(t.Context(), status); err != nil {
		t.Fatalf("write the status: %v", err)
	}
}

func TestSelectableFieldsSelect(t *testing.T) {
	for _, object := range completeObjects() {
		crd := crdOf(t, object)
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			createComplete(t, object)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				t.Fatal(err)
			}
			fields := crd.Spec.Versions[0].SelectableFields
			if len(fields) == 0 {
				t.Fatal("the kind has no selectable field")
			}
			for _, field := range fields {
				path := strings.TrimPrefix(field.JSONPath, ".")
				value, found, err := unstructured.NestedString(content, strings.Split(path, ".")...)
				if err != nil || !found {
					t.Fatalf("field %s of the complete object: found %v, error %v", path, found, err)
				}
				if got := count(t, crd, path, value); got != 1 {
					t.Errorf("%s=%s selects %d objects, want 1", path, value, got)
				}
				if got := count(t, crd, path, "other"); got != 0 {
					t.Errorf("%s=other selects %d objects, want 0", path, got)
				}
			}
		})
	}
}

func count(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, path, value string) int {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(crd.Spec.Names.ListKind))
	if err := server.client.List(t.Context(), list, client.MatchingFields{path: value}); err != nil {
		t.Fatalf("list with %s=%s: %v", path, value, err)
	}
	return len(list.Items)
}

func TestEveryPrintColumnShowsAValue(t *testing.T) {
	config := rest.CopyConfig(server.config)
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	raw, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range completeObjects() {
		crd := crdOf(t, object)
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			createComplete(t, object)
			body, err := raw.Get().NamespaceIfScoped(object.GetNamespace(), object.GetNamespace() != "").
				Resource(crd.Spec.Names.Plural).Name(object.GetName()).
				SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Raw()
			if err != nil {
				t.Fatalf("get as table: %v", err)
			}
			var table metav1.Table
			if err := json.Unmarshal(body, &table); err != nil {
				t.Fatalf("decode table: %v", err)
			}
			if len(table.Rows) != 1 || len(table.ColumnDefinitions) < 3 {
				t.Fatalf("table has %d rows and columns %+v, want 1 row and more than name and age", len(table.Rows), table.ColumnDefinitions)
			}
			for i, column := range table.ColumnDefinitions {
				if cell := table.Rows[0].Cells[i]; cell == nil || cell == "" || cell == "<unknown>" {
					t.Errorf("column %s is empty although the object has everything", column.Name)
				}
			}
		})
	}
}
