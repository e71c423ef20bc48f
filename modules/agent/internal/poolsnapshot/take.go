package poolsnapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/telemetry"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/identity"
	"github.com/distort-io/distort/modules/api/tracing"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// failure is why a snapshot is not what it should be.
type failure struct {
	reason string
	// terminal: trying again is useless until an object changes.
	terminal bool
	err      error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func terminal(reason, format string, args ...any) error {
	return &failure{reason, true, fmt.Errorf(format, args...)}
}

func later(err error) error { return &failure{v1alpha1.ReasonSourceNotReady, false, err} }

// taken is a snapshot that was read back.
type taken struct {
	snapshot zfs.Snapshot
	pool     v1alpha1.PoolGUID
	// filesystem is the format record of its source; nil when there is none.
	filesystem *v1alpha1.FilesystemStatus
}

// specOf is the snapshot that the object asks for.
func specOf(s *v1alpha1.Snapshot) zfs.SnapshotSpec {
	return zfs.SnapshotSpec{ID: identity.SnapshotID(string(s.UID)), UID: string(s.UID), GUID: s.Status.BackendGUID}
}

// take makes the snapshot, or finds the one that an agent made which died just after.
func (r *Reconciler) take(ctx context.Context, s *v1alpha1.Snapshot) (taken, error) {
	v, err := r.source(ctx, s)
	if err != nil {
		return taken{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	p, err := r.Pools.Working(ctx, v.Spec.PoolGUID)
	if err != nil {
		return taken{}, later(err)
	}
	// What is recorded now is on the medium.
	filesystem, err := volume.Formatted(ctx, r.Client, v)
	if err != nil {
		return taken{}, err
	}
	began := time.Now()
	of := zfs.Spec{ID: identity.ExternalID(string(v.UID)), UID: string(v.UID)}
	got, err := r.ZFS.Snapshot(ctx, p, of, v.Status.DatasetGUID, specOf(s))
	r.Tracer.Did(telemetry.Work{Name: "snapshot", Object: s, Phase: tracing.Begin, Began: began, Err: err, Place: p.Name})
	switch {
	case errors.Is(err, zfs.ErrNotFound):
		return taken{}, terminal(v1alpha1.ReasonSourceGone, "%w", err)
	case errors.Is(err, zfs.ErrForeign):
		return taken{}, terminal(v1alpha1.ReasonSnapshotFailed, "%w", err)
	case errors.Is(err, zfs.ErrNoSpace):
		return taken{}, &failure{v1alpha1.ReasonNoSpace, false, err}
	case err != nil:
		return taken{}, &failure{v1alpha1.ReasonSnapshotFailed, false, err}
	}
	return taken{got, v.Spec.PoolGUID, filesystem}, nil
}

// source is the volume that the snapshot is taken of, in the life that is meant.
func (r *Reconciler) source(ctx context.Context, s *v1alpha1.Snapshot) (*v1alpha1.Volume, error) {
	ref := s.Spec.Source
	if ref.Kind != v1alpha1.KindVolume {
		return nil, terminal(v1alpha1.ReasonSourceUnsupported, "%s %s: only volumes of pools have snapshots", ref.Kind, ref.Name)
	}
	v := &v1alpha1.Volume{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, v); {
	case apierrors.IsNotFound(err), err == nil && v.UID != ref.UID:
		return nil, terminal(v1alpha1.ReasonSourceGone, "this node has no Volume %s with UID %s", ref.Name, ref.UID)
	case err != nil:
		return nil, fmt.Errorf("read Volume %s: %w", ref.Name, err)
	case v.Spec.Provenance != v1alpha1.ProvenanceDynamic || v.Spec.Type != v1alpha1.VolumeBlock:
		return nil, terminal(v1alpha1.ReasonSourceUnsupported, "volumes of type %s and provenance %s have no snapshots", v.Spec.Type, v.Spec.Provenance)
	case v.DeletionTimestamp != nil:
		return nil, terminal(v1alpha1.ReasonSourceGone, "Volume %s is being deleted", ref.Name)
	case v.Status.DatasetGUID == "":
		return nil, later(fmt.Errorf("the Volume %s is not made yet", ref.Name))
	}
	return v, nil
}

// unrestored waits until the volumes that are being made of the snapshot are
// recorded. Nothing is made of one that was not taken.
func (r *Reconciler) unrestored(ctx context.Context, s *v1alpha1.Snapshot) error {
	if s.Status.BackendGUID == "" {
		return nil
	}
	var all v1alpha1.VolumeList
	if err := r.Client.List(ctx, &all); err != nil {
		return fmt.Errorf("list volumes of this node: %w", err)
	}
	var names []string
	for i := range all.Items {
		of := all.Items[i].Spec.SourceSnapshot
		if of != nil && of.UID == s.UID && all.Items[i].Status.DatasetGUID == "" && all.Items[i].Spec.OwnerNode == r.NodeName {
			names = append(names, all.Items[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return &failure{v1alpha1.ReasonHasDependants, false, fmt.Errorf("waits for volumes that are made of it: %s", strings.Join(names, ", "))}
}

// destroy makes sure that the snapshot is gone, or goes with what was cloned from it.
// Before one was recorded it may exist all the same, made by an agent that died just
// after; its source then still exists too, since it waits for its snapshots.
func (r *Reconciler) destroy(ctx context.Context, s *v1alpha1.Snapshot) error {
	if err := r.unrestored(ctx, s); err != nil {
		return err
	}
	guid := s.Status.PoolGUID
	if guid == "" {
		v := &v1alpha1.Volume{}
		err := r.Client.Get(ctx, client.ObjectKey{Name: s.Spec.Source.Name}, v)
		if apierrors.IsNotFound(err) || err == nil && v.UID != s.Spec.Source.UID {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read Volume %s: %w", s.Spec.Source.Name, err)
		}
		guid = v.Spec.PoolGUID
	}
	ctx, cancel := context.WithTimeout(ctx, poolTimeout)
	defer cancel()
	p, err := r.Pools.Working(ctx, guid)
	if errors.Is(err, zfs.ErrNoPool) && s.Annotations[v1alpha1.AbandonDataAnnotation] == string(s.UID) {
		return nil
	}
	if err != nil {
		return later(fmt.Errorf("waits for the pool, to destroy the snapshot: %w", err))
	}
	began := time.Now()
	err = r.ZFS.DestroySnapshot(ctx, p, specOf(s))
	r.Tracer.Did(telemetry.Work{Name: "destroy snapshot", Object: s, Phase: tracing.End, Began: began, Err: err, Place: p.Name})
	if errors.Is(err, zfs.ErrForeign) || errors.Is(err, zfs.ErrHeld) {
		return later(fmt.Errorf("waits for a person: %w", err))
	}
	return err
}
