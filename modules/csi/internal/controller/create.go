package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// CreateVolume makes the NVMePartition or Volume of the request's name, or finds
// the one that an earlier call made, and waits until it is exported.
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
	domain, err := s.inventory.Domain(ctx, p.GetTargetNode())
	if err != nil {
		return nil, toStatus(err)
	}
	if t := want.Topology; t != nil && len(t.Requisite) > 0 && !slices.Contains(t.Requisite, domain) {
		return nil, toStatus(refusef(errConflict, "volume %q is in network domain %q, requested are %v", want.Name, domain, t.Requisite))
	}
	volume := s.described(p, domain)
	volume.VolumeContext = want.Context.Encode()
	if want.Source != nil {
		volume.ContentSource = want.Source.Content
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

func (s *Server) provision(ctx context.Context, want request.CreateVolume) (v1alpha1.Slice, error) {
	wanted, err := want.Object()
	if err != nil {
		return nil, err
	}
	f := s.family(want.Kind)
	if err := s.nameIsFree(ctx, f, want.ObjectName); err != nil {
		return nil, err
	}
	if err := s.sourceIsThere(ctx, f, want); err != nil {
		return nil, err
	}
	sub := f.volumes.Subscribe(f.key(want.ObjectName))
	defer sub.Close()
	p, err := s.intend(ctx, sub, f, wanted)
	if err != nil {
		return nil, err
	}
	if p.GetRequestFingerprint() != wanted.GetRequestFingerprint() {
		return nil, refusef(errConflict, "%s %s was requested with other parameters, capabilities or size (%s; now %s)",
			f.kind, p.GetName(), summary(p), summary(wanted))
	}
	latest := p
	ready, err := sub.Until(ctx, await.Present(p.GetUID(), func(p v1alpha1.Slice) (bool, error) {
		latest = p
		return provisioned(p)
	}))
	switch {
	case (errors.Is(err, errNoCapacity) || errors.Is(err, errFailed)) && latest.IsCarved():
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

// summary is what people tell volumes of one name apart by.
func summary(v v1alpha1.Slice) string {
	return fmt.Sprintf("%d bytes %s %s %s over %s", v.GetSize(), v.GetAccessMode(), v.GetAccessType(), v.GetFilesystem(), v.GetTransport())
}

// nameIsFree refuses a name that a volume of another kind has.
func (s *Server) nameIsFree(ctx context.Context, wanted *family, name string) error {
	for _, other := range s.families {
		if other == wanted {
			continue
		}
		switch err := s.client.Get(ctx, other.key(name), other.empty()); {
		case err == nil:
			return refusef(errConflict, "%s %s was requested with other parameters", other.kind, name)
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("read %s %s: %w", other.kind, name, err)
		}
	}
	return nil
}

// intend returns the object of the wanted one's name, made now or before. It is
// durable before anything else happens, so that whoever asks again finds it (known
// faults CV1, CV7).
func (s *Server) intend(ctx context.Context, sub *await.Subscription[v1alpha1.Slice], f *family, wanted v1alpha1.Slice) (v1alpha1.Slice, error) {
	key := f.key(wanted.GetName())
	for {
		p, cached := f.empty(), true
		err := s.client.Get(ctx, key, p)
		if apierrors.IsNotFound(err) {
			p = copyOf(wanted)
			p.SetNamespace(key.Namespace)
			p.SetFinalizers([]string{v1alpha1.SliceFinalizer})
			telemetry.Mark(ctx, p)
			if err = s.client.Create(ctx, p); apierrors.IsAlreadyExists(err) {
				// The cache is behind, or another replica was faster.
				p, cached = f.empty(), false
				if err = s.live.Get(ctx, key, p); apierrors.IsNotFound(err) {
					return nil, refusef(errBusy, "%s %s is being made and removed", f.kind, name(key))
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("make %s %s: %w", f.kind, name(key), err)
		}
		if p.GetDeletionTimestamp() == nil {
			return p, nil
		}
		// An earlier volume of this name goes first; it is another volume.
		if _, err := sub.Until(ctx, await.Gone[v1alpha1.Slice](p.GetUID(), cached)); err != nil {
			return nil, fmt.Errorf("an earlier %s %s is still being deleted (%s): %w", f.kind, name(key), progress(p), err)
		}
	}
}

// withdraw takes a request back that cannot be met, before the caller is told
// so: it will not ask again, or ask for another place, and nobody would ever
// delete what is placed later (known faults CV1, CV10). A volume that
// was ever carved is not touched.
func (s *Server) withdraw(ctx context.Context, sub *await.Subscription[v1alpha1.Slice], p v1alpha1.Slice, reason error) error {
	if err := s.remove(ctx, p); err != nil {
		return refusef(errBusy, "%v; the request could not be withdrawn yet: %v", reason, err)
	}
	if _, err := sub.Until(ctx, await.Gone[v1alpha1.Slice](p.GetUID(), true)); err != nil {
		return refusef(errBusy, "%v; the request is still being withdrawn: %v", reason, err)
	}
	return reason
}
