package controller

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
)

// family is where the volumes of one kind are kept: NVMePartitions or Volumes. All
// else is done alike, by what v1alpha1.Slice tells of them.
type family struct {
	kind v1alpha1.VolumeKind
	// namespace of the objects, empty for a kind of cluster scope.
	namespace string
	volumes   *await.Kind[v1alpha1.Slice]
}

func newFamily(ctx context.Context, o Options, kind v1alpha1.VolumeKind) (*family, error) {
	f := &family{kind: kind}
	if kind == v1alpha1.KindNVMePartition {
		f.namespace = o.Namespace
	}
	var err error
	f.volumes, err = await.NewKind(ctx, o.Cache, o.Client, o.Live, f.empty)
	return f, err
}

func (f *family) empty() v1alpha1.Slice { return v1alpha1.NewSlice(f.kind) }

func (f *family) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: f.namespace, Name: name}
}

// name is a key as people write it.
func name(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.String()
}

// family returns that of a kind which package request lets through.
func (s *Server) family(kind v1alpha1.VolumeKind) *family {
	for _, f := range s.families {
		if f.kind == kind {
			return f
		}
	}
	return nil
}

func (s *Server) familyOf(h handle.Handle) *family { return s.family(v1alpha1.VolumeKind(h.Kind)) }

// handleOf is the handle that callers keep of a volume.
func handleOf(v v1alpha1.Slice) handle.Handle {
	ref := v.GetReference()
	return handle.Handle{Kind: handle.Kind(ref.Kind), Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
}

// copyOf copies a volume's object.
func copyOf(v v1alpha1.Slice) v1alpha1.Slice { return v.DeepCopyObject().(v1alpha1.Slice) }
