package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/handle"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/csi/internal/await"
	"github.com/distort-io/distort/modules/csi/internal/request"
	"github.com/distort-io/distort/modules/csi/internal/telemetry"
)

// snapshotGuard keeps the names of snapshots apart from those of volumes.
const snapshotGuard = "snapshot/"

// CreateSnapshot makes the Snapshot of the request's name, or finds the one that an
// earlier call made, and waits until it is taken.
func (s *Server) CreateSnapshot(ctx context.Context, r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	want, err := request.ParseCreateSnapshot(r, s.namespace)
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(snapshotGuard + want.ObjectName)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	snapshot, err := s.takeSnapshot(ctx, want)
	if err != nil {
		return nil, toStatus(fmt.Errorf("create snapshot %q: %w", want.Name, err))
	}
	return &csi.CreateSnapshotResponse{Snapshot: describeSnapshot(snapshot)}, nil
}

func (s *Server) takeSnapshot(ctx context.Context, want request.CreateSnapshot) (*v1alpha1.Snapshot, error) {
	key := types.NamespacedName{Name: want.ObjectName}
	sub := s.snapshots.Subscribe(key)
	defer sub.Close()
	fingerprint, err := want.Fingerprint()
	if err != nil {
		return nil, err
	}
	snapshot, err := s.intendSnapshot(ctx, sub, want, fingerprint)
	if err != nil {
		return nil, err
	}
	if snapshot.Spec.RequestFingerprint != fingerprint {
		return nil, refusef(errConflict, "Snapshot %s is of %s %s", snapshot.Name, snapshot.Spec.Source.Kind, snapshot.Spec.Source.Name)
	}
	latest := snapshot
	ready, err := sub.Until(ctx, await.Present(snapshot.UID, func(o *v1alpha1.Snapshot) (bool, error) {
		latest = o
		return snapshotTaken(o)
	}))
	switch {
	case errors.Is(err, errFailed), errors.Is(err, errNoCapacity):
		// Nothing was taken, and nobody may ask for its deletion.
		if gone := s.deleteSnapshotObject(ctx, sub, latest, true); gone != nil {
			return nil, refusef(errBusy, "%v; the request could not be withdrawn yet: %v", err, gone)
		}
		return nil, err
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: %w", snapshotProgress(latest), err)
	}
	return ready, err
}

// intendSnapshot returns the object of this name, made now or before.
func (s *Server) intendSnapshot(ctx context.Context, sub *await.Subscription[*v1alpha1.Snapshot], want request.CreateSnapshot, fingerprint string) (*v1alpha1.Snapshot, error) {
	key := types.NamespacedName{Name: want.ObjectName}
	for {
		o, cached := newSnapshot(), true
		err := s.client.Get(ctx, key, o)
		if apierrors.IsNotFound(err) {
			var source v1alpha1.Slice
			if source, err = s.existingVolume(ctx, want.Source); err != nil {
				return nil, err
			}
			if err := want.Suits(source); err != nil {
				return nil, err
			}
			switch {
			case source.GetDeletionTimestamp() != nil:
				return nil, refusef(errState, "source_volume_id: %s %s is being deleted", v1alpha1.KindVolume, source.GetName())
			case !source.IsCarved():
				return nil, refusef(errNotYet, "source_volume_id: %s %s is not made yet", v1alpha1.KindVolume, source.GetName())
			}
			o = &v1alpha1.Snapshot{
				ObjectMeta: metav1.ObjectMeta{Name: want.ObjectName, Finalizers: []string{v1alpha1.SliceFinalizer}},
				Spec:       v1alpha1.SnapshotSpec{Source: source.GetReference(), NodeName: source.GetTargetNode(), RequestFingerprint: fingerprint},
			}
			telemetry.Mark(ctx, o)
			if err = s.client.Create(ctx, o); apierrors.IsAlreadyExists(err) {
				o, cached = newSnapshot(), false
				if err = s.live.Get(ctx, key, o); apierrors.IsNotFound(err) {
					return nil, refusef(errBusy, "Snapshot %s is being made and removed", key.Name)
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("make Snapshot %s: %w", key.Name, err)
		}
		if o.DeletionTimestamp == nil {
			return o, nil
		}
		// An earlier snapshot of this name goes first; it is another one.
		if _, err := sub.Until(ctx, await.Gone[*v1alpha1.Snapshot](o.UID, cached)); err != nil {
			return nil, fmt.Errorf("an earlier Snapshot %s is still being deleted (%s): %w", key.Name, snapshotProgress(o), err)
		}
	}
}

// DeleteSnapshot deletes the Snapshot and waits until it is gone. What was restored
// from it stays.
func (s *Server) DeleteSnapshot(ctx context.Context, r *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	h, err := request.ParseSnapshotID(r.GetSnapshotId())
	if errors.Is(err, request.ErrNoSnapshot) {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err != nil {
		return nil, toStatus(err)
	}
	release, err := s.guard(snapshotGuard + h.Name)
	if err != nil {
		return nil, toStatus(err)
	}
	defer release()
	sub := s.snapshots.Subscribe(types.NamespacedName{Name: h.Name})
	defer sub.Close()
	o, cached, err := s.snapshotNow(ctx, h)
	if err == nil && o != nil {
		err = s.deleteSnapshotObject(ctx, sub, o, cached)
	}
	if err != nil {
		return nil, toStatus(fmt.Errorf("delete snapshot %s: %w", h, err))
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (s *Server) deleteSnapshotObject(ctx context.Context, sub *await.Subscription[*v1alpha1.Snapshot], o *v1alpha1.Snapshot, cached bool) error {
	if err := s.remove(ctx, o); err != nil {
		return err
	}
	latest := o
	gone := await.Gone[*v1alpha1.Snapshot](o.UID, cached)
	_, err := sub.Until(ctx, func(seen await.Observation[*v1alpha1.Snapshot]) (bool, error) {
		if seen.Found {
			latest = seen.Object
		}
		return gone(seen)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", snapshotProgress(latest), err)
	}
	return err
}

// snapshotNow is volumeNow for a Snapshot.
func (s *Server) snapshotNow(ctx context.Context, h handle.Handle) (o *v1alpha1.Snapshot, cached bool, err error) {
	for _, reader := range []client.Reader{s.client, s.live} {
		o := newSnapshot()
		err := reader.Get(ctx, types.NamespacedName{Name: h.Name}, o)
		if err == nil && string(o.UID) == h.UID {
			return o, reader == s.client, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, false, fmt.Errorf("read Snapshot %s: %w", h.Name, err)
		}
	}
	return nil, false, nil
}

// existingSnapshot is for calls that need the snapshot.
func (s *Server) existingSnapshot(ctx context.Context, h handle.Handle) (*v1alpha1.Snapshot, error) {
	o, _, err := s.snapshotNow(ctx, h)
	if err == nil && o == nil {
		err = refusef(errNotFound, "snapshot %s does not exist", h)
	}
	return o, err
}

// snapshotTaken tells whether the snapshot is ready; errFailed or errNoCapacity when it
// will not be.
func snapshotTaken(o *v1alpha1.Snapshot) (bool, error) {
	c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReadyToUse)
	switch {
	case o.Status.ReadyToUse:
		return true, nil
	case c == nil, o.Status.BackendGUID != "":
		return false, nil
	case c.Reason == v1alpha1.ReasonSourceUnsupported, c.Reason == v1alpha1.ReasonSourceGone:
		return false, refusef(errFailed, "%s", describe(c))
	case c.Reason == v1alpha1.ReasonNoSpace:
		return false, refusef(errNoCapacity, "%s", describe(c))
	}
	return false, nil
}

// snapshotProgress says what a snapshot waits for.
func snapshotProgress(o *v1alpha1.Snapshot) string {
	if c := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReadyToUse); c != nil {
		return describe(c)
	}
	return fmt.Sprintf("no answer yet (distort-agent on %s)", o.Spec.NodeName)
}

// describeSnapshot is a snapshot as the driver describes it to its callers.
func describeSnapshot(o *v1alpha1.Snapshot) *csi.Snapshot {
	source := o.Spec.Source
	d := &csi.Snapshot{
		SnapshotId:     handle.Handle{Kind: handle.Snapshot, Name: o.Name, UID: string(o.UID)}.String(),
		SourceVolumeId: handle.Handle{Kind: handle.Kind(source.Kind), Namespace: source.Namespace, Name: source.Name, UID: string(source.UID)}.String(),
		SizeBytes:      o.Status.Size,
		ReadyToUse:     o.Status.ReadyToUse,
	}
	if o.Status.CreatedAt != nil {
		d.CreationTime = timestamppb.New(o.Status.CreatedAt.Time)
	}
	return d
}
