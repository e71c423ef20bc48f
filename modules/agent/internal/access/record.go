package access

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// newer returns the attachment's format record when the volume does not know as
// much yet, else nil. A finished format is never replaced by another one: a
// volume is formatted once. What can come to it is that its journal was replayed.
func newer(have, seen *v1alpha1.FilesystemStatus) *v1alpha1.FilesystemStatus {
	switch {
	case seen == nil:
		return nil
	case have == nil:
		return seen
	case have.FormattedAt != nil:
		if !have.Recovered() && seen.Recovered() && seen.Type == have.Type && seen.UUID == have.UUID {
			return seen
		}
		return nil
	case seen.FormattedAt != nil, have.FormatStartedAt == nil && seen.FormatStartedAt != nil:
		return seen
	}
	return nil
}

// copyFormatted copies the record of a finished format as soon as it is there:
// until then it exists in the attachment only.
func (r *Reconciler) copyFormatted(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) error {
	if a.Status.Filesystem == nil || a.Status.Filesystem.FormattedAt == nil {
		return nil
	}
	return r.copyRecord(ctx, a, p)
}

// copyRecord copies what the node recorded about the volume's format to the
// volume.
func (r *Reconciler) copyRecord(ctx context.Context, a *v1alpha1.NVMeVolumeAttachment, p v1alpha1.Slice) error {
	record := newer(p.GetFilesystemStatus(), a.Status.Filesystem)
	if record == nil {
		return nil
	}
	changed := p.DeepCopyObject().(v1alpha1.Slice)
	changed.SetFilesystemStatus(record.DeepCopy())
	switch err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(p)); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("copy format record of attachment %s to %s: %w", a.Name, volume.Name(p), err)
	default:
		r.volumes.Note(p, changed)
	}
	return nil
}
