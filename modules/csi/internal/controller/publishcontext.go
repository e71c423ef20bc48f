package controller

import (
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/publishcontext"
)

// publishContext is what the node must know to find the volume and nothing
// else, from what distort-agent observed.
func publishContext(p v1alpha1.Slice, a *v1alpha1.NVMeVolumeAttachment) (map[string]string, error) {
	uid := string(p.GetUID())
	c := publishcontext.Context{
		Namespace: initiator.Identity{
			NQN: p.GetNQN(), NSID: identity.NSID, UUID: identity.NamespaceUUID(uid), NGUID: identity.NamespaceNGUID(uid),
		},
		HostNQN:        a.Spec.HostNQN,
		Attachment:     formatonce.AttachmentRef{Namespace: a.Namespace, Name: a.Name, UID: string(a.UID)},
		AttachmentID:   a.Spec.AttachmentID,
		FilesystemUUID: identity.FilesystemUUID(uid),
		Zeroed:         p.IsZeroed(),
		Recorded:       recorded(p.GetFilesystemStatus(), a.Status.Filesystem),
		Traceparent:    tracing.Traceparent(p),
		AttachedAt:     a.CreationTimestamp.Time,
	}
	for _, portal := range p.GetPortals() {
		address, err := netip.ParseAddr(portal.Address)
		if err != nil {
			return nil, refusef(errFailed, "portal of %s %s: %v", p.GetReference().Kind, p.GetName(), err)
		}
		c.Portals = append(c.Portals, initiator.Portal{
			Transport: initiator.Transport(portal.Transport), Address: address, Port: uint16(portal.Port),
		})
	}
	encoded, err := c.Encode()
	if err != nil {
		return nil, refusef(errNotYet, "%s %s: %v", p.GetReference().Kind, p.GetName(), err)
	}
	return encoded, nil
}

// recorded is the finished format record, of the volume or of the attachment
// whose node has just written it.
func recorded(records ...*v1alpha1.FilesystemStatus) formatonce.Record {
	for _, r := range records {
		if r != nil && r.FormattedAt != nil {
			return formatonce.Record{
				Type: filesystem.Type(r.Type), UUID: r.UUID, StartedAt: timeOf(r.FormatStartedAt), FormattedAt: r.FormattedAt.Time,
			}
		}
	}
	return formatonce.Record{}
}

func timeOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}
