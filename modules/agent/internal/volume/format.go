package volume

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Formatted is the record of a finished format of the volume; nil when there is none.
// It may be known to an attachment only, whose node has just written it and mounts
// the filesystem from then on.
func Formatted(ctx context.Context, cache client.Reader, s v1alpha1.Slice) (*v1alpha1.FilesystemStatus, error) {
	records := []*v1alpha1.FilesystemStatus{s.GetFilesystemStatus()}
	attachments, err := Attachments(ctx, cache, s.GetUID())
	if err != nil {
		return nil, err
	}
	for i := range attachments {
		if Refers(&attachments[i], s) {
			records = append(records, attachments[i].Status.Filesystem)
		}
	}
	for _, r := range records {
		if r != nil && r.FormattedAt != nil {
			return r, nil
		}
	}
	return nil, nil
}
