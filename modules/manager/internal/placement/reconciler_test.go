package placement

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// TestWriteThatFails injects what envtest cannot: answers that are lost and
// refusals of the API server.
func TestWriteThatFails(t *testing.T) {
	resource := schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "nvmepartitions"}
	lost := errors.New("connection reset")
	cases := map[string]struct {
		answer error
		lands  bool
		fails  bool
	}{
		"lost, and it landed":          {answer: lost, lands: true, fails: true},
		"lost, and it did not land":    {answer: lost, fails: true},
		"a conflict":                   {answer: apierrors.NewConflict(resource, "p", errors.New("changed"))},
		"the partition is gone":        {answer: apierrors.NewNotFound(resource, "p")},
		"the API server refuses it":    {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "NVMePartition"}, "p", nil), fails: true},
		"no right to write partitions": {answer: apierrors.NewForbidden(resource, "p", nil), fails: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			p := aPartition("p", 2*unit)
			p.ResourceVersion = ""
			calls := 0
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).WithStatusSubresource(p).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
					calls++
					if calls > 1 {
						return c.Patch(ctx, o, patch, opts...)
					}
					if tc.lands {
						if err := c.Patch(ctx, o, patch, opts...); err != nil {
							return err
						}
					}
					return tc.answer
				},
			}).Build()
			l := newLedger(fixed, 4*unit)
			r := &Reconciler{Kind: v1alpha1.KindNVMePartition, Client: c, Ledger: l, Recorder: events.NewFakeRecorder(10)}
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}

			try := func() error { _, err := r.Reconcile(t.Context(), request); return err }

			if err := try(); err != nil || calls != 0 {
				t.Fatalf("error %v and %d writes before the reservation", err, calls)
			}
			reserve(t, l, "d1")
			if err := try(); (err != nil) != tc.fails || tc.fails && !errors.Is(err, tc.answer) {
				t.Fatalf("error %v, want one: %v", err, tc.fails)
			}
			if got := free(t, l, "d1"); got != 2*unit {
				t.Errorf("%d units free after the answer, want 2: the reservation stays", got/unit)
			}
			if err := try(); err != nil {
				t.Fatalf("second try: %v", err)
			}
			if err := c.Get(t.Context(), request.NamespacedName, p); err != nil {
				t.Fatal(err)
			}
			if p.Spec.NodeName != "n1" {
				t.Errorf("placed on node %q in the end, want n1", p.Spec.NodeName)
			}
			l.partitionSeen(p)
			if got := free(t, l, "d1"); got != 2*unit {
				t.Errorf("%d units free in the end, want 2", got/unit)
			}
		})
	}
}

func TestRefusalIsWrittenOnceAndToldOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	p := aPartition("p", 9*unit)
	p.ResourceVersion = ""
	writes := 0
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p).WithStatusSubresource(p).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}).Build()
	recorder := events.NewFakeRecorder(10)
	r := &Reconciler{Kind: v1alpha1.KindNVMePartition, Client: c, Ledger: newLedger(fixed, 4*unit), Recorder: recorder}
	for range 3 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 1 || len(recorder.Events) != 1 {
		t.Errorf("%d writes and %d events for one reason, want one of each", writes, len(recorder.Events))
	}
}
