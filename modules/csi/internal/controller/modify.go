package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ControllerModifyVolume changes the compression of a zvol, and waits until
// distort-agent has read it back. What cannot change is refused, never passed over:
// partitions have nothing that could. A value that ZFS does not take is withdrawn, so
// that it does not happen later, unasked.
func (s *Server) ControllerModifyVolume(ctx context.Context, r *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	want, err := request.ParseModify(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(want.Volume.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	p, err := s.existingVolume(ctx, want.Volume)
	if err != nil {
		return nil, toStatus(err)
	}
	if err := request.RefuseModify(r.GetMutableParameters(), request.BackendOf(p)); err != nil {
		return nil, toStatus(err)
	}
	if err := s.modify(ctx, want); err != nil {
		return nil, toStatus(fmt.Errorf("modify volume %s: %w", want.Volume, err))
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}

// modify takes one step after the other, each of them decided by the object alone, as
// expand does.
func (s *Server) modify(ctx context.Context, want request.Modify) error {
	f := s.familyOf(want.Volume)
	sub := f.volumes.Subscribe(f.key(want.Volume.Name))
	defer sub.Close()
	p, err := s.existingVolume(ctx, want.Volume)
	for err == nil {
		v, ok := p.(*v1alpha1.Volume)
		if !ok {
			return refusef(errFailed, "%s is no Volume", want.Volume)
		}
		if err := modifiable(v); err != nil {
			return err
		}
		switch refusal := modifyRefusal(v); {
		case v.Spec.Compression == want.Compression && v.Status.Compression == want.Compression:
			return nil
		case v.Spec.Compression != want.Compression:
			p, err = s.compress(ctx, v, want.Compression)
		case refusal != nil:
			if p, err = s.compress(ctx, v, v.Status.Compression); err == nil && p.(*v1alpha1.Volume).Spec.Compression == v.Status.Compression {
				return refusal
			}
		default:
			p, err = s.modified(ctx, sub, v)
		}
	}
	return err
}

// modifiable refuses what no change can help, before anything is changed.
func modifiable(v *v1alpha1.Volume) error {
	switch {
	case v.DeletionTimestamp != nil:
		return refusef(errState, "the volume is being deleted")
	case v.Spec.Provenance == v1alpha1.ProvenanceImported:
		return refusef(errState, "the volume was imported: its properties are those of whoever made it")
	}
	return nil
}

// compress writes the compression that the volume shall have.
func (s *Server) compress(ctx context.Context, v *v1alpha1.Volume, compression string) (v1alpha1.Slice, error) {
	what := fmt.Sprintf("set compression of Volume %s from %q to %q", v.Name, v.Spec.Compression, compression)
	return s.change(ctx, v, what, func(changed v1alpha1.Slice) { changed.(*v1alpha1.Volume).Spec.Compression = compression })
}

// modified waits until the zvol has the compression that was asked for, or
// distort-agent has refused it.
func (s *Server) modified(ctx context.Context, sub *await.Subscription[v1alpha1.Slice], asked *v1alpha1.Volume) (v1alpha1.Slice, error) {
	latest := asked
	p, err := sub.Until(ctx, await.Present(asked.UID, func(p v1alpha1.Slice) (bool, error) {
		v, ok := p.(*v1alpha1.Volume)
		if !ok || v.Generation < asked.Generation {
			return false, nil // the cache is behind
		}
		latest = v
		if err := modifiable(v); err != nil {
			return false, err
		}
		if v.Spec.Compression != asked.Spec.Compression {
			return false, refusef(errBusy, "another call has set the compression to %q meanwhile", v.Spec.Compression)
		}
		return v.Status.Compression == v.Spec.Compression || modifyRefusal(v) != nil, nil
	}))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s: %w", modification(latest), err)
	}
	return p, err
}

// modifyRefusal is distort-agent's final answer to what the spec now asks for,
// errState; nil as long as there is none.
func modifyRefusal(v *v1alpha1.Volume) error {
	c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionModified)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonModifyRefused || c.ObservedGeneration != v.Generation {
		return nil
	}
	return refusef(errState, "%s", c.Message)
}

// modification says what a volume waits for that is to have another compression.
func modification(v *v1alpha1.Volume) string {
	if c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionModified); c != nil && c.ObservedGeneration == v.Generation {
		return describe(c)
	}
	return fmt.Sprintf("its compression is not read back yet (distort-agent on %s)", v.Spec.OwnerNode)
}
