package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// Origin tells which trace a call belongs to, as far as the cache knows. A call
// that is repeated joins the trace of the first one, which the object carries.
func (s *Server) Origin(ctx context.Context, call any) telemetry.Origin {
	switch r := call.(type) {
	case *csi.CreateVolumeRequest:
		o := telemetry.Origin{Volume: identity.VolumeName(r.GetName())}
		for _, f := range s.families {
			p := f.empty()
			if err := s.client.Get(ctx, f.key(o.Volume), p); err == nil && p.GetDeletionTimestamp() == nil {
				o.Earlier = tracing.Traceparent(p)
			}
		}
		return o
	case *csi.DeleteVolumeRequest:
		return s.laterOrigin(ctx, r.GetVolumeId(), tracing.End)
	case *csi.ControllerExpandVolumeRequest:
		want, err := request.ParseExpand(r, s.namespace)
		if err != nil {
			return telemetry.Origin{}
		}
		return s.laterOrigin(ctx, r.GetVolumeId(), tracing.Resize(want.Size))
	case *csi.ControllerPublishVolumeRequest:
		return s.publishOrigin(ctx, r)
	case *csi.ControllerUnpublishVolumeRequest:
		return s.unpublishOrigin(ctx, r)
	case *csi.CreateSnapshotRequest:
		o := newSnapshot()
		if err := s.client.Get(ctx, client.ObjectKey{Name: identity.VolumeName(r.GetName())}, o); err == nil && o.DeletionTimestamp == nil {
			return telemetry.Origin{Earlier: tracing.Traceparent(o)}
		}
	case *csi.DeleteSnapshotRequest:
		return s.deleteSnapshotOrigin(ctx, r.GetSnapshotId())
	}
	return telemetry.Origin{}
}

// laterOrigin is that of a later phase of a volume's life.
func (s *Server) laterOrigin(ctx context.Context, id string, phase tracing.Phase) telemetry.Origin {
	p := s.knownVolume(ctx, id)
	if p == nil {
		return telemetry.Origin{}
	}
	return telemetry.Origin{Volume: p.GetName(), TraceID: tracing.Derive(p.GetUID(), phase), Cause: tracing.Traceparent(p)}
}

func (s *Server) publishOrigin(ctx context.Context, r *csi.ControllerPublishVolumeRequest) telemetry.Origin {
	p := s.knownVolume(ctx, r.GetVolumeId())
	if p == nil {
		return telemetry.Origin{}
	}
	o := telemetry.Origin{Volume: p.GetName(), Cause: tracing.Traceparent(p)}
	a := newAttachment()
	name, err := s.attachmentName(ctx, p, r.GetNodeId())
	if err == nil {
		err = s.client.Get(ctx, s.key(name), a)
	}
	if err == nil && a.Spec.NodeID == r.GetNodeId() && a.DeletionTimestamp == nil {
		o.Earlier = tracing.Traceparent(a)
	}
	return o
}

func (s *Server) unpublishOrigin(ctx context.Context, r *csi.ControllerUnpublishVolumeRequest) telemetry.Origin {
	want, err := request.ParseUnpublish(r, s.namespace)
	if err != nil {
		return telemetry.Origin{}
	}
	o := telemetry.Origin{Volume: want.Volume.Name}
	known, err := s.cachedAttachments(ctx, want.Volume.UID)
	if held := only(known, want); err == nil && len(held) > 0 {
		o.TraceID, o.Cause = tracing.Derive(held[0].UID, tracing.End), tracing.Traceparent(&held[0])
	}
	return o
}

func (s *Server) deleteSnapshotOrigin(ctx context.Context, id string) telemetry.Origin {
	h, err := request.ParseSnapshotID(id)
	if err != nil {
		return telemetry.Origin{}
	}
	o := newSnapshot()
	if err := s.client.Get(ctx, client.ObjectKey{Name: h.Name}, o); err != nil || string(o.UID) != h.UID {
		return telemetry.Origin{}
	}
	return telemetry.Origin{TraceID: tracing.Derive(o.UID, tracing.End), Cause: tracing.Traceparent(o)}
}

// knownVolume is the volume of an ID, nil when the cache does not have it.
func (s *Server) knownVolume(ctx context.Context, id string) v1alpha1.Slice {
	h, err := request.ParseVolumeID(id, s.namespace)
	if err != nil {
		return nil
	}
	f := s.familyOf(h)
	p := f.empty()
	if err := s.client.Get(ctx, f.key(h.Name), p); err != nil || string(p.GetUID()) != h.UID {
		return nil
	}
	return p
}
