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
	"github.com/distort-io/distort/modules/csi/internal/request"
)

// ControllerExpandVolume asks for more space behind the volume's slice and waits
// until distort-agent has read the new size back. A growth that the drive has no
// room for is withdrawn, so that it neither holds space nor happens later,
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
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: p.Status.AllocatedCapacity, NodeExpansionRequired: onNode}, nil
}

// nodeExpands tells whether a node has something to do: to grow a filesystem,
// or to read back that it sees all of a raw device it holds, since an event may
// be lost (known fault EX1). A node that connects later sees the new size.
func (s *Server) nodeExpands(ctx context.Context, p *v1alpha1.NVMePartition) (bool, error) {
	if p.Spec.AccessType == v1alpha1.AccessMount {
		return true, nil
	}
	attached, err := s.cachedAttachments(ctx, string(p.UID))
	return len(attached) > 0, err
}

// expand takes one step after the other, each of them decided by the object
// alone. So it makes no difference whether an earlier call came any further.
func (s *Server) expand(ctx context.Context, want request.Expand) (*v1alpha1.NVMePartition, error) {
	sub := s.partitions.Subscribe(s.key(want.Volume.Name))
	defer sub.Close()
	p, err := s.existingPartition(ctx, want.Volume)
	if err == nil && want.Access != nil {
		err = want.Access.Suits(p)
	}
	for err == nil {
		if err := expandable(p, want.Limit); err != nil {
			return nil, err
		}
		switch allocated, refusal := p.Status.AllocatedCapacity, growthRefusal(p); {
		case allocated >= want.Size && p.Spec.Size <= allocated:
			return p, nil
		case allocated >= want.Size:
			// An earlier call asked for more, and nobody waits for it any more.
			p, err = s.resize(ctx, p, allocated)
		case p.Spec.Size != want.Size:
			if err = s.hasRoom(ctx, p, want.Size); err == nil {
				p, err = s.resize(ctx, p, want.Size)
			}
		case refusal != nil:
			if p, err = s.resize(ctx, p, allocated); err == nil && p.Spec.Size == allocated {
				return nil, refusal
			}
		default:
			p, err = answered(ctx, sub, p)
		}
	}
	return nil, err
}

// expandable refuses what no growth can help, before anything is changed.
func expandable(p *v1alpha1.NVMePartition, limit int64) error {
	switch allocated := p.Status.AllocatedCapacity; {
	case p.DeletionTimestamp != nil:
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

// hasRoom refuses a growth for which the drive has no space, before anything is
// changed. Whether the space lies behind the slice only distort-agent can tell.
func (s *Server) hasRoom(ctx context.Context, p *v1alpha1.NVMePartition, size int64) error {
	free, known, err := s.inventory.Free(ctx, p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber)
	more := size - max(p.Spec.Size, p.Status.AllocatedCapacity)
	if err != nil || !known || more <= free {
		return err
	}
	return refusef(errNoCapacity, "%d bytes more are wanted, drive %s of node %s has %d free",
		more, p.Spec.ParentDeviceSerialNumber, p.Spec.NodeName, free)
}

// resize writes the size that the volume shall have, over the state that was
// read and no other. If that is out of date, it returns the newest one.
func (s *Server) resize(ctx context.Context, p *v1alpha1.NVMePartition, size int64) (*v1alpha1.NVMePartition, error) {
	changed := p.DeepCopy()
	changed.Spec.Size = size
	err := s.client.Patch(ctx, changed, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		changed = newPartition()
		if err = s.live.Get(ctx, client.ObjectKeyFromObject(p), changed); err == nil && changed.UID != p.UID {
			return nil, await.ErrVanished
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, await.ErrVanished
	}
	if err != nil {
		return nil, fmt.Errorf("set size of NVMePartition %s from %d to %d bytes: %w", p.Name, p.Spec.Size, size, err)
	}
	return changed, nil
}

// answered waits until the volume has the size that was asked for, or
// distort-agent has refused it.
func answered(ctx context.Context, sub *await.Subscription[*v1alpha1.NVMePartition], asked *v1alpha1.NVMePartition) (*v1alpha1.NVMePartition, error) {
	latest := asked
	p, err := sub.Until(ctx, await.Present(asked.UID, func(p *v1alpha1.NVMePartition) (bool, error) {
		if p.Generation < asked.Generation {
			return false, nil // the cache is behind
		}
		latest = p
		if err := expandable(p, 0); err != nil {
			return false, err
		}
		if p.Spec.Size != asked.Spec.Size {
			return false, refusef(errBusy, "another call has set the size to %d bytes meanwhile", p.Spec.Size)
		}
		return p.Status.AllocatedCapacity >= p.Spec.Size || growthRefusal(p) != nil, nil
	}))
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s: %w", growth(latest), err)
	}
	return p, err
}
