package apiserver

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A growth that is not possible is withdrawn, but never below what was carved: the
// capacity that a partition holds is always at least the one it is counted with.
func TestSizeGoesBackToWhatWasCarvedAndNoFurther(t *testing.T) {
	p := placedPartition()
	if err := create(t, p); err != nil {
		t.Fatal(err)
	}
	size := p.Spec.Size
	set := func(to int64) error {
		before := p.DeepCopy()
		p.Spec.Size = to
		err := server.client.Patch(t.Context(), p, client.MergeFrom(before))
		if err != nil {
			p = before
		}
		return err
	}
	if err := set(2 * size); err != nil {
		t.Fatalf("growth refused: %v", err)
	}
	if err := set(size); !apierrors.IsInvalid(err) {
		t.Errorf("size went back before anything was carved: %v", err)
	}
	carved := p.DeepCopy()
	carved.Status.AllocatedCapacity = size
	if err := server.client.Status().Patch(t.Context(), carved, client.MergeFrom(p)); err != nil {
		t.Fatalf("status refused: %v", err)
	}
	p = carved
	if err := set(size - 4*mib); !apierrors.IsInvalid(err) {
		t.Errorf("size went below what was carved: %v", err)
	}
	if err := set(size); err != nil {
		t.Errorf("withdrawal refused: %v", err)
	}
	// What the agent observes is never refused for the sake of the rule.
	observed := p.DeepCopy()
	observed.Status.AllocatedCapacity = 2 * size
	if err := server.client.Status().Patch(t.Context(), observed, client.MergeFrom(p)); err != nil {
		t.Errorf("status with more than spec asks for refused: %v", err)
	}
}
