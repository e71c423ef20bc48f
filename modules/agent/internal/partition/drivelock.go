package partition

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// lockDrive makes sure that the drive belongs to the partition's backend: kernel
// and SPDK never share one (design.md §6). The change of a drive's object wakes
// every partition on it, so a lock that was cleared just before is set again.
func (r *Reconciler) lockDrive(ctx context.Context, s *scope) error {
	return r.locking.Do(ctx, s.drive.Serial, func(ctx context.Context) error { return r.takeDrive(ctx, s) })
}

// takeDrive does what lockDrive says, under the drive's lock.
func (r *Reconciler) takeDrive(ctx context.Context, s *scope) error {
	want := v1alpha1.ActiveBackend(s.partition.Spec.TargetBackend)
	d, err := r.device(ctx, s.drive.Serial)
	if err != nil {
		return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonCarveFailed, tryAgain, err}
	}
	switch d.Status.ActiveBackend {
	case want:
		return nil
	case "", v1alpha1.ActiveBackendNone:
		if err := r.setActiveBackend(ctx, d, want); err != nil {
			return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonCarveFailed, tryAgain, err}
		}
		return nil
	}
	return &failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonDriveRefused, needsPerson,
		fmt.Errorf("drive %s is used by backend %s; it can change to %s only while it holds no partition", d.Name, d.Status.ActiveBackend, want)}
}

// device reads the object of a drive, with our own last write.
func (r *Reconciler) device(ctx context.Context, serial string) (*v1alpha1.NVMeDevice, error) {
	d := &v1alpha1.NVMeDevice{}
	name := types.NamespacedName{Name: r.deviceName(serial)}
	if err := r.Client.Get(ctx, name, d); err != nil {
		return nil, fmt.Errorf("read NVMeDevice %s: %w", name.Name, err)
	}
	return r.devices.Latest(d), nil
}

// unlockDrive gives the drive back when the partition is the last one on it. The
// caller holds the drive's lock.
func (r *Reconciler) unlockDrive(ctx context.Context, gone *v1alpha1.NVMePartition) error {
	all, err := volume.OnDrive(ctx, r.Client, gone.Spec.ParentDeviceSerialNumber)
	if err != nil {
		return err
	}
	for i := range all {
		p := r.written.Latest(&all[i])
		if p.UID != gone.UID && (p.DeletionTimestamp == nil || len(p.Finalizers) > 0) {
			return nil
		}
	}
	d, err := r.device(ctx, gone.Spec.ParentDeviceSerialNumber)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case d.Status.ActiveBackend == "" || d.Status.ActiveBackend == v1alpha1.ActiveBackendNone:
		return nil
	}
	carver, err := r.Locators.Get(v1alpha1.TargetBackend(d.Status.ActiveBackend))
	if err != nil {
		return nil // an agent with the backend gives it back
	}
	ctx, cancel := context.WithTimeout(ctx, targetTimeout)
	defer cancel()
	switch released, err := carver.Release(ctx, d.Spec.SerialNumber); {
	case err != nil:
		return fmt.Errorf("give drive %s back: %w", d.Name, err)
	case !released:
		return nil
	}
	return r.setActiveBackend(ctx, d, v1alpha1.ActiveBackendNone)
}

func (r *Reconciler) setActiveBackend(ctx context.Context, d *v1alpha1.NVMeDevice, b v1alpha1.ActiveBackend) error {
	changed := d.DeepCopy()
	changed.Status.ActiveBackend = b
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(d)); err != nil {
		return fmt.Errorf("set activeBackend %s of NVMeDevice %s: %w", b, d.Name, err)
	}
	r.devices.Note(d, changed)
	return nil
}
