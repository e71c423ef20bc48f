package apiserver

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/demo"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/pages"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/repo"
)

// tutorial is the page by which somebody does by hand what the demo does.
const tutorial = "docs/tutorial/lab.md"

// TestTutorialMakesWhatTheDemoMakes: the objects of the tutorial are those that make
// demo makes for its first way, and no others. Both are made on the API server, so that
// defaults do not differ.
func TestTutorialMakesWhatTheDemoMakes(t *testing.T) {
	c, ctx := anyKind(t), t.Context()
	shown := map[string]map[string]any{}
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := pages.Read(root, tutorial)
	if err != nil {
		t.Fatal(err)
	}
	written, err := page.Manifests()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range written {
		if err := makeObject(t, c, m.Object); err != nil {
			t.Fatalf("%s: %v", m.Position, err)
		}
		take(ctx, t, c, m.Object, shown)
	}
	f, err := flow.New(server.config, nil, demo.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	way, consumers := demo.Ways()[0], layout.Consumers()
	if err := f.CreateClass(ctx, way.Class()); err != nil {
		t.Fatal(err)
	}
	if err := f.CreateClaim(ctx, way.Claim()); err != nil {
		t.Fatal(err)
	}
	if err := f.CreatePod(ctx, way.Pod(prepare.WorkloadImage, consumers[0])); err != nil {
		t.Fatal(err)
	}
	for _, serial := range layout.Drives() {
		if err := f.ClaimDrive(ctx, flow.DriveClaimName(serial), serial); err != nil {
			t.Fatal(err)
		}
	}
	made := map[string]map[string]any{}
	for _, m := range written {
		take(ctx, t, c, m.Object, made)
	}
	if diff := cmp.Diff(made, shown); diff != "" {
		t.Errorf("-demo +%s:\n%s", tutorial, diff)
	}
	if want := 3 + len(layout.Drives()); len(shown) != want {
		t.Errorf("%s shows %d objects, the demo makes %d for one way", tutorial, len(shown), want)
	}
}

// take takes what an object says off the API server, and removes it there.
func take(ctx context.Context, t *testing.T, c client.Client, like *unstructured.Unstructured, into map[string]map[string]any) {
	t.Helper()
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(like.GroupVersionKind())
	name := fmt.Sprintf("%s %s/%s", like.GetKind(), like.GetNamespace(), like.GetName())
	if err := c.Get(ctx, client.ObjectKeyFromObject(like), got); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got.SetFinalizers(nil)
	if err := c.Update(ctx, got); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if err := c.Delete(ctx, got, client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	said := map[string]any{}
	for field, value := range got.Object {
		if field != "metadata" && field != "status" {
			said[field] = value
		}
	}
	into[name] = said
}
