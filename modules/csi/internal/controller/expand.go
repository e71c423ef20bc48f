package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/inventory"
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ControllerExpandVolume asks for more space behind the volume's slice and waits
// until distort-agent has read the new size back. A growth that the drive or pool has
// no room for is withdrawn, so that it neither holds space nor happens later,
// unasked (design.md §4, expansion).
func (s *Server) ControllerExpandVolume(ctx context.Context, r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	want, err := request.ParseExpand(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(want.Volume.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	p, err := s.expand(ctx, want)
	if err != nil {
		return nil, toStatus(fmt.Errorf("expand volume %s: %w", want.Volume, err))
	}
	onNode, err := s.nodeExpands(ctx, p)
	if err != nil {
		return nil, toStatus(err)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: p.GetActualSize(), NodeExpansionRequired: onNode}, nil
}

// nodeExpands tells whether a node has something to do: to grow a filesystem,
// or to read back that it sees all of a raw device it holds, since an event may
// be lost (known fault EX1). A node that connects later sees the new size.
func (s *Server) nodeExpands(ctx context.Context, p v1alpha1.Slice) (bool, error) {
	if p.GetAccessType() == v1alpha1.AccessMount {
		return true, nil
	}
	attached, err := s.cachedAttachments(ctx, string(p.GetUID()))
	return len(attached) > 0, err
}

// expand takes one step after the other, each of them decided by the object
// alone. So it makes no difference whether an earlier call came any further.
func (s *Server) expand(ctx context.Context, want request.Expand) (v1alpha1.Slice, error) {
	f := s.familyOf(want.Volume)
	sub := f.volumes.Subscribe(f.key(want.Volume.Name))
	defer sub.Close()
	p, err := s.existingVolume(ctx, want.Volume)
	if err == nil && want.Access != nil {
		err = want.Access.Suits(p)
	}
	if err == nil && p.GetAccessMode() == v1alpha1.ReadOnlyMany {
		err = refusef(request.ErrInvalid, "access mode %s: every node only reads, and none could grow the filesystem", p.GetAccessMode())
	}
	for err == nil {
		if err := expandable(p, want.Limit); err != nil {
			return nil, err
		}
		switch allocated, refusal := p.GetActualSize(), growthRefusal(p); {
		case allocated >= want.Size && p.GetSize() <= allocated:
			return p, nil
		case allocated >= want.Size:
			// An earlier call asked for more, and nobody waits for it any more.
			p, err = s.resize(ctx, p, allocated)
		case p.GetSize() != want.Size:
			if err = s.hasRoom(ctx, p, want.Size); err == nil {
				p, err = s.resize(ctx, p, want.Size)
			}
		case refusal != nil:
			if p, err = s.resize(ctx, p, allocated); err == nil && p.GetSize() == allocated {
				return nil, refusal
			}
		default:
			p, err = answered(ctx, sub, p)
		}
	}
	return nil, err
}

// expandable refuses what no growth can help, before anything is changed.
func expandable(p v1alpha1.Slice, limit int64) error {
	switch allocated := p.GetActualSize(); {
	case p.GetDeletionTimestamp() != nil:
		return refusef(errState, "the volume is being deleted")
	case allocated == 0:
		return refusef(errNotYet, "the volume is not made yet: %s", progress(p))
	case limit > 0 && allocated > limit:
		return refusef(request.ErrOutOfRange, "the volume has %d bytes, more than limit_bytes %d", allocated, limit)
	}
	if _, err := provisioned(p); err != nil {
		return refusef(errState, "the volume is not healthy: %v", err)
	}
	return nil
}

// hasRoom refuses a growth for which the drive or pool has no space, before
// anything is changed. Whether a drive's space lies behind the slice only
// distort-agent can tell.
func (s *Server) hasRoom(ctx context.Context, p v1alpha1.Slice, size int64) error {
	where, free, known, err := s.inventory.Free(ctx, p)
	if err != nil || !known {
		return err
	}
	more, err := inventory.Taken(p, size)
	if err != nil {
		return fmt.Errorf("%w: %w", request.ErrOutOfRange, err)
	}
	now, err := inventory.Taken(p, max(p.GetSize(), p.GetActualSize()))
	if more -= now; err != nil || more <= free {
		return err
	}
	return refusef(errNoCapacity, "%d bytes more are wanted, %s of node %s has %d free", more, where, p.GetTargetNode(), free)
}

// resize writes the size that the volume shall have.
func (s *Server) resize(ctx context.Context, p v1alpha1.Slice, size int64) (v1alpha1.Slice, error) {
	what := fmt.Sprintf("set size of %s %s from %d to %d bytes", p.GetReference().Kind, p.GetName(), p.GetSize(), size)
	return s.change(ctx, p, what, func(changed v1alpha1.Slice) { changed.SetSize(size) })
}

// change writes a part of the spec over the state that was read and no other. If that
// is out of date, it returns the newest one.
func (s *Server) change(ctx context.Context, p v1alpha1.Slice, what string, do func(v1alpha1.Slice)) (v1alpha1.Slice, error) {
	changed := copyOf(p)
	do(changed)
	err := s.client.Patch(ctx, changed, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		changed = v1alpha1.NewSlice(p.GetReference().Kind)
		if err = s.live.Get(ctx, client.ObjectKeyFromObject(p), changed); err == nil && changed.GetUID() != p.GetUID() {
			return nil, await.ErrVanished
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, await.ErrVanished
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return changed, nil
}

// answered waits until the volume has the size that was asked for, or
// distort-agent has refused it.
func answered(ctx context.Context, sub *await.Subscription[v1alpha1.Slice], asked v1alpha1.Slice) (v1alpha1.Slice, error) {
	latest := asked
	p, err := sub.Until(ctx, await.Present(asked.GetUID(), func(p v1alpha1.Slice) (bool, error) {
		if p.GetGeneration() < asked.GetGeneration() {
			return false, nil // the cache is behind
		}
		latest = p
		if err := expandable(p, 0); err != nil {
			return false, err
		}
		if p.GetSize() != asked.GetSize() {
			return false, refusef(errBusy, "another call has set the size to %d bytes meanwhile", p.GetSize())
		}
		return p.GetActualSize() >= p.GetSize() || growthRefusal(p) != nil, nil
	}))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s: %w", growth(latest), err)
	}
	return p, err
}
