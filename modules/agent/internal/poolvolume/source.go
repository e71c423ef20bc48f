package poolvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Why a volume cannot be made of its source.
var (
	errSourceGone     = errors.New("source is gone")
	errSourceNotReady = errors.New("source is not ready")
)

// make makes the volume's zvol, empty or of its source, on a pool that answers. What
// an agent began that died is finished.
func (r *Reconciler) make(ctx context.Context, s *scope) (zfs.Volume, error) {
	z := r.Locator.ZFS
	if err := z.Check(ctx, s.pool); err != nil {
		return zfs.Volume{}, err
	}
	switch spec := s.volume.Spec; {
	case spec.SourceSnapshot != nil:
		of, err := r.restored(ctx, s)
		if err != nil {
			return zfs.Volume{}, err
		}
		return fromSource(z.Clone(ctx, s.pool, of, specOf(s.volume)))
	case spec.SourceVolume != nil:
		return fromSource(r.copy(ctx, s))
	}
	return z.Create(ctx, s.pool, specOf(s.volume))
}

// fromSource tells a snapshot that is not there any more.
func fromSource(v zfs.Volume, err error) (zfs.Volume, error) {
	if errors.Is(err, zfs.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errSourceGone, err)
	}
	return v, err
}

// restored is the snapshot that the volume is made of.
func (r *Reconciler) restored(ctx context.Context, s *scope) (zfs.SnapshotSpec, error) {
	ref, snapshot := s.volume.Spec.SourceSnapshot, &v1alpha1.Snapshot{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, snapshot); {
	case apierrors.IsNotFound(err), err == nil && snapshot.UID != ref.UID:
		return zfs.SnapshotSpec{}, fmt.Errorf("%w: this node has no Snapshot %s with UID %s", errSourceGone, ref.Name, ref.UID)
	case err != nil:
		return zfs.SnapshotSpec{}, fmt.Errorf("read Snapshot %s: %w", ref.Name, err)
	case snapshot.Status.BackendGUID == "" && snapshot.DeletionTimestamp != nil:
		return zfs.SnapshotSpec{}, fmt.Errorf("%w: Snapshot %s goes without having been taken", errSourceGone, ref.Name)
	case snapshot.Status.BackendGUID == "":
		return zfs.SnapshotSpec{}, fmt.Errorf("%w: Snapshot %s is not taken yet", errSourceNotReady, ref.Name)
	case snapshot.Status.PoolGUID != s.volume.Spec.PoolGUID:
		return zfs.SnapshotSpec{}, fmt.Errorf("%w: Snapshot %s is on pool %s", errSourceGone, ref.Name, snapshot.Status.PoolGUID)
	}
	s.filesystem = snapshot.Status.Filesystem
	return zfs.SnapshotSpec{ID: identity.SnapshotID(string(ref.UID)), UID: string(ref.UID), GUID: snapshot.Status.BackendGUID}, nil
}

// copy clones the zvol of another volume, from a snapshot that goes with the clone.
func (r *Reconciler) copy(ctx context.Context, s *scope) (zfs.Volume, error) {
	ref, source := s.volume.Spec.SourceVolume, &v1alpha1.Volume{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, source); {
	case apierrors.IsNotFound(err), err == nil && source.UID != ref.UID:
		return zfs.Volume{}, fmt.Errorf("%w: this node has no Volume %s with UID %s", errSourceGone, ref.Name, ref.UID)
	case err != nil:
		return zfs.Volume{}, fmt.Errorf("read Volume %s: %w", ref.Name, err)
	case source.Status.DatasetGUID == "":
		return zfs.Volume{}, fmt.Errorf("%w: Volume %s is not made yet", errSourceNotReady, ref.Name)
	case source.Spec.PoolGUID != s.volume.Spec.PoolGUID:
		return zfs.Volume{}, fmt.Errorf("%w: Volume %s is on pool %s", errSourceGone, ref.Name, source.Spec.PoolGUID)
	}
	// What is recorded now is on the medium.
	filesystem, err := volume.Formatted(ctx, r.Client, source)
	if err != nil {
		return zfs.Volume{}, err
	}
	z, of := r.Locator.ZFS, copyOf(s.volume)
	if _, err := z.Snapshot(ctx, s.pool, specOf(source), source.Status.DatasetGUID, of); err != nil {
		return zfs.Volume{}, err
	}
	v, err := z.Clone(ctx, s.pool, of, specOf(s.volume))
	if err != nil {
		return zfs.Volume{}, err
	}
	s.filesystem = filesystem
	return v, z.DestroySnapshot(ctx, s.pool, of)
}

// copyOf is the snapshot that a copy of another volume is made of.
func copyOf(v *v1alpha1.Volume) zfs.SnapshotSpec {
	return zfs.SnapshotSpec{ID: identity.CopyID(string(v.UID)), UID: string(v.UID)}
}

// uncopied waits until the copies that are being made of the volume are recorded.
func (r *Reconciler) uncopied(ctx context.Context, s *scope) error {
	var all v1alpha1.VolumeList
	if err := r.Client.List(ctx, &all); err != nil {
		return stuck(tryAgain, fmt.Errorf("list volumes of this node: %w", err))
	}
	var names []string
	for i := range all.Items {
		of := all.Items[i].Spec.SourceVolume
		if of != nil && of.UID == s.volume.UID && all.Items[i].Status.DatasetGUID == "" && all.Items[i].Spec.OwnerNode == r.NodeName {
			names = append(names, all.Items[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return needed(fmt.Errorf("waits for volumes that are copied from it: %s", strings.Join(names, ", ")))
}

// dependants waits for what keeps a zvol from being destroyed, and names it.
func (r *Reconciler) dependants(ctx context.Context, err *zfs.DependantsError) error {
	var all v1alpha1.SnapshotList
	if err := r.Client.List(ctx, &all); err != nil {
		return stuck(tryAgain, fmt.Errorf("list snapshots of this node: %w", err))
	}
	var names []string
	for _, s := range err.Snapshots {
		switch at := slices.IndexFunc(all.Items, func(o v1alpha1.Snapshot) bool { return string(o.UID) == s.UID }); {
		case at >= 0:
			names = append(names, all.Items[at].Name)
		case len(s.Clones) > 0:
			names = append(names, fmt.Sprintf("%s (which no Snapshot names, with clones %s)", s.Name, strings.Join(s.Clones, ", ")))
		default:
			names = append(names, s.Name+" (which no Snapshot names)")
		}
	}
	return needed(fmt.Errorf("waits for snapshots: %s", strings.Join(names, ", ")))
}

// needed is the failure of a deletion that waits for what depends on the volume.
func needed(err error) *failure {
	return &failure{v1alpha1.ConditionExported, v1alpha1.ReasonHasDependants, waitForHost, err}
}
