package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// CreateVolume makes the NVMePartition of the request's name, or finds the one
// that an earlier call made, and waits until it is exported.
func (s *Server) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	want, err := request.ParseCreateVolume(r, s.defaults)
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(want.ObjectName)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	p, err := s.provision(ctx, want)
	if err != nil {
		return nil, toStatus(fmt.Errorf("create volume %q: %w", want.Name, err))
	}
	domain, err := s.inventory.Domain(ctx, p.Spec.NodeName)
	if err != nil {
		return nil, toStatus(err)
	}
	if t := want.Topology; t != nil && len(t.Requisite) > 0 && !slices.Contains(t.Requisite, domain) {
		return nil, toStatus(refusef(errConflict, "volume %q is in network domain %q, requested are %v", want.Name, domain, t.Requisite))
	}
	volume := s.volume(p, domain)
	volume.VolumeContext = want.Context.Encode()
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (s *Server) handleOf(p *v1alpha1.NVMePartition) handle.Handle {
	return handle.Handle{Kind: handle.NVMePartition, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

func (s *Server) provision(ctx context.Context, want request.CreateVolume) (*v1alpha1.NVMePartition, error) {
	spec, err := want.Spec()
	if err != nil {
		return nil, err
	}
	sub := s.partitions.Subscribe(s.key(want.ObjectName))
	defer sub.Close()
	p, err := s.intend(ctx, sub, want.ObjectName, spec)
	if err != nil {
		return nil, err
	}
	if p.Spec.RequestFingerprint != spec.RequestFingerprint {
		return nil, refusef(errConflict, "NVMePartition %s was requested with other parameters, capabilities or size (%d bytes %s %s %s over %s; now %d bytes %s %s %s over %s)",
			p.Name, p.Spec.Size, p.Spec.AccessMode, p.Spec.AccessType, p.Spec.Filesystem, p.Spec.Transport,
			spec.Size, spec.AccessMode, spec.AccessType, spec.Filesystem, spec.Transport)
	}
	latest := p
	ready, err := sub.Until(ctx, await.Present(p.UID, func(p *v1alpha1.NVMePartition) (bool, error) {
		latest = p
		return provisioned(p)
	}))
	switch {
	case (errors.Is(err, errNoCapacity) || errors.Is(err, errFailed)) && carved(latest):
		// This volume was handed out before and may hold data.
		return nil, refusef(errNotYet, "volume exists and is not healthy: %v", err)
	case errors.Is(err, errNoCapacity), errors.Is(err, errFailed):
		return nil, s.withdraw(ctx, sub, latest, err)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: %w", progress(latest), err)
	case err != nil:
		return nil, err
	}
	return ready, nil
}

// intend returns the object of this name, made now or before. It is durable
// before anything else happens, so that whoever asks again finds it (known
// faults CV1, CV7).
func (s *Server) intend(ctx context.Context, sub *await.Subscription[*v1alpha1.NVMePartition], name string, spec v1alpha1.NVMePartitionSpec) (*v1alpha1.NVMePartition, error) {
	key := s.key(name)
	for {
		p, cached := newPartition(), true
		err := s.client.Get(ctx, key, p)
		if apierrors.IsNotFound(err) {
			p.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Finalizers: []string{v1alpha1.SliceFinalizer}}
			p.Spec = spec
			telemetry.Mark(ctx, p)
			if err = s.client.Create(ctx, p); apierrors.IsAlreadyExists(err) {
				// The cache is behind, or another replica was faster.
				p, cached = newPartition(), false
				if err = s.live.Get(ctx, key, p); apierrors.IsNotFound(err) {
					return nil, refusef(errBusy, "NVMePartition %s is being made and removed", key)
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("make NVMePartition %s: %w", key, err)
		}
		if p.DeletionTimestamp == nil {
			return p, nil
		}
		// An earlier volume of this name goes first; it is another volume.
		if _, err := sub.Until(ctx, await.Gone[*v1alpha1.NVMePartition](p.UID, cached)); err != nil {
			return nil, fmt.Errorf("an earlier NVMePartition %s is still being deleted (%s): %w", key, progress(p), err)
		}
	}
}

// withdraw takes a request back that cannot be met, before the caller is told
// so: it will not ask again, or ask for another place, and nobody would ever
// delete what is placed later (known faults CV1, CV10). A volume that
// was ever carved is not touched.
func (s *Server) withdraw(ctx context.Context, sub *await.Subscription[*v1alpha1.NVMePartition], p *v1alpha1.NVMePartition, reason error) error {
	if err := s.remove(ctx, p); err != nil {
		return refusef(errBusy, "%v; the request could not be withdrawn yet: %v", reason, err)
	}
	if _, err := sub.Until(ctx, await.Gone[*v1alpha1.NVMePartition](p.UID, true)); err != nil {
		return refusef(errBusy, "%v; the request is still being withdrawn: %v", reason, err)
	}
	return reason
}
