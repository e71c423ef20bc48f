package node

import (
	"context"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// Origin links the calls that come with a publish context to the trace in which
// their volume was provisioned.
func (s *Server) Origin(_ context.Context, call any) telemetry.Origin {
	var o telemetry.Origin
	if r, ok := call.(interface{ GetVolumeId() string }); ok {
		if h, err := handle.Parse(r.GetVolumeId()); err == nil {
			o.Volume = h.Name
		}
	}
	if r, ok := call.(interface{ GetPublishContext() map[string]string }); ok {
		o.Cause = publishcontext.Traceparent(r.GetPublishContext())
	}
	return o
}
