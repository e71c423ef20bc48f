package placement

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A snapshot that is taken is not missed because the cache is behind: the request would
// be withdrawn.
func TestSnapshotIsReadPastTheCache(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	snapshot := &v1alpha1.Snapshot{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}, Spec: v1alpha1.SnapshotSpec{NodeName: "n1"}}
	taken := snapshot.DeepCopy()
	taken.Status.PoolGUID = poolA
	other := taken.DeepCopy()
	other.UID = "another"
	for name, c := range map[string]struct {
		cached, live []client.Object
		refusal      string
	}{
		"known":                    {[]client.Object{taken}, nil, ""},
		"not in the cache yet":     {nil, []client.Object{taken}, ""},
		"its status is not yet":    {[]client.Object{snapshot}, []client.Object{taken}, ""},
		"the cache has an old one": {[]client.Object{other}, []client.Object{taken}, ""},
		"it was never taken":       {[]client.Object{snapshot}, []client.Object{snapshot}, "Snapshot s is not taken yet"},
		"there is none":            {nil, nil, "there is no Snapshot s with UID s"},
	} {
		t.Run(name, func(t *testing.T) {
			v := aVolume("v", gib)
			v.ResourceVersion = ""
			v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: "s", UID: "s"}
			build := func(objects ...client.Object) client.Client {
				return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.Volume{}).Build()
			}
			ledger := poolLedger(map[v1alpha1.PoolGUID]int64{poolA: 9 * gib})
			cached := build(append(c.cached, v)...)
			r := &Reconciler{Kind: v1alpha1.KindVolume, Client: cached, Live: build(c.live...), Ledger: ledger, Recorder: events.NewFakeRecorder(10)}
			if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(v)}); err != nil {
				t.Fatal(err)
			}
			if err := cached.Get(t.Context(), client.ObjectKeyFromObject(v), v); err != nil {
				t.Fatal(err)
			}
			refusal := ""
			if placed := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionPlaced); placed != nil {
				refusal = placed.Message
			}
			if decided := ledger.pools.decided[v.UID] != nil; decided != (c.refusal == "") || !strings.Contains(refusal, c.refusal) {
				t.Errorf("placed: %t, refused: %q, want %q", decided, refusal, c.refusal)
			}
		})
	}
}
