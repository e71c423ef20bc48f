// Package formatrecord keeps format records on NVMeVolumeAttachments: the node
// that formats a volume writes to its own attachment, and distort-agent copies
// the record to the volume (design.md §4).
package formatrecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/formatonce"
)

// ErrNotOurs: the attachment is another one now, or is being withdrawn. Its
// node has no business with the volume any more.
var ErrNotOurs = errors.New("attachment does not hold")

// Recorder implements formatonce.Recorder.
type Recorder struct {
	nodeID string
	client client.Client
}

var _ formatonce.Recorder = (*Recorder)(nil)

// New returns the recorder of a node. The client must read from the API
// server: a cached record could be one from before mkfs.
func New(nodeID string, c client.Client) *Recorder { return &Recorder{nodeID: nodeID, client: c} }

// Load returns the record of the attachment, zero when it has none.
func (r *Recorder) Load(ctx context.Context, ref formatonce.AttachmentRef) (formatonce.Record, error) {
	var a v1alpha1.NVMeVolumeAttachment
	if err := r.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &a); err != nil {
		return formatonce.Record{}, fmt.Errorf("read NVMeVolumeAttachment: %w", err)
	}
	if err := r.check(&a, ref); err != nil {
		return formatonce.Record{}, err
	}
	f := a.Status.Filesystem
	if f == nil {
		return formatonce.Record{}, nil
	}
	return formatonce.Record{
		Type: filesystem.Type(f.Type), UUID: f.UUID, StartedAt: fromAPI(f.FormatStartedAt), FormattedAt: fromAPI(f.FormattedAt),
		RecoveredAt: fromAPI(f.RecoveredAt),
	}, nil
}

// Save writes the record with one JSON patch, whose tests the API server makes
// together with the write: it changes this attachment, in this life, of this
// node, or nothing. (A UID in the metadata of a merge patch is not compared for
// the status subresource.)
func (r *Recorder) Save(ctx context.Context, ref formatonce.AttachmentRef, record formatonce.Record) error {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch, err := json.Marshal([]operation{
		{"test", "/metadata/uid", ref.UID},
		{"test", "/spec/nodeID", r.nodeID},
		{"add", "/status/filesystem", v1alpha1.FilesystemStatus{
			Type: v1alpha1.FilesystemType(record.Type), UUID: record.UUID,
			FormatStartedAt: toAPI(record.StartedAt), FormattedAt: toAPI(record.FormattedAt),
			RecoveredAt: toAPI(record.RecoveredAt),
		}},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	a := v1alpha1.NVMeVolumeAttachment{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	if err := r.client.Status().Patch(ctx, &a, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		return fmt.Errorf("patch status of NVMeVolumeAttachment with UID %s of node %s: %w", ref.UID, r.nodeID, err)
	}
	return r.check(&a, ref)
}

func (r *Recorder) check(a *v1alpha1.NVMeVolumeAttachment, ref formatonce.AttachmentRef) error {
	switch {
	case string(a.UID) != ref.UID:
		return fmt.Errorf("%w: its UID is %s, the volume was published with %s", ErrNotOurs, a.UID, ref.UID)
	case a.Spec.NodeID != r.nodeID:
		return fmt.Errorf("%w: it is of node %s, this is %s", ErrNotOurs, a.Spec.NodeID, r.nodeID)
	case a.DeletionTimestamp != nil:
		return fmt.Errorf("%w: it is being withdrawn", ErrNotOurs)
	}
	return nil
}

func fromAPI(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func toAPI(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}
