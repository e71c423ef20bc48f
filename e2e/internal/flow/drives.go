package flow

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	driveTimeout   = 90 * time.Second
	releaseTimeout = 60 * time.Second
)

// DriveClaimName is the name of the claim of a drive.
func DriveClaimName(serial string) string { return "drive-" + strings.ToLower(serial) }

// ClaimDrive makes a claim of that name for a drive, without waiting.
func (f *Flow) ClaimDrive(ctx context.Context, name, serial string) error {
	claim := &v1alpha1.NVMeDeviceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.DefaultNamespace},
		Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: serial},
	}
	if err := f.client.Create(ctx, claim); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("claim drive %s: %w", serial, err)
	}
	return nil
}

// WaitDriveClaim waits until condition Bound of a claim has that reason, and
// returns its message.
func (f *Flow) WaitDriveClaim(ctx context.Context, name, reason string) (string, error) {
	claim := &v1alpha1.NVMeDeviceClaim{}
	claim.Namespace, claim.Name = v1alpha1.DefaultNamespace, name
	return f.waitReason(ctx, claim, func() []metav1.Condition { return claim.Status.Conditions }, v1alpha1.ConditionBound, reason)
}

// WaitDevice waits until a condition of a drive has that reason, and returns
// its message.
func (f *Flow) WaitDevice(ctx context.Context, name, condition, reason string) (string, error) {
	device := &v1alpha1.NVMeDevice{}
	device.Name = name
	return f.waitReason(ctx, device, func() []metav1.Condition { return device.Status.Conditions }, condition, reason)
}

func (f *Flow) waitReason(ctx context.Context, object client.Object, conditions func() []metav1.Condition, kind, reason string) (message string, err error) {
	what := fmt.Sprintf("%T %s has %s with reason %s", object, object.GetName(), kind, reason)
	err = Eventually(ctx, what, driveTimeout, func(ctx context.Context) (string, error) {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return "", err
		}
		if found := meta.FindStatusCondition(conditions(), kind); found != nil && found.Reason == reason {
			message = found.Message
			return "", nil
		}
		return "conditions: " + Conditions(conditions()), nil
	})
	return message, err
}

// DeleteDriveClaim deletes a claim and waits until it is gone.
func (f *Flow) DeleteDriveClaim(ctx context.Context, name string) error {
	claim := &v1alpha1.NVMeDeviceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: v1alpha1.DefaultNamespace}}
	return f.deleteAndWait(ctx, claim, releaseTimeout)
}

// ClaimDrives claims drives by serial number and waits until each is Bound.
func (f *Flow) ClaimDrives(ctx context.Context, serials []string) error {
	for _, serial := range serials {
		if err := f.ClaimDrive(ctx, DriveClaimName(serial), serial); err != nil {
			return err
		}
	}
	for _, serial := range serials {
		if _, err := f.WaitDriveClaim(ctx, DriveClaimName(serial), v1alpha1.ReasonBound); err != nil {
			return err
		}
	}
	return nil
}

// ReleaseDrives deletes the claims and waits until they are gone.
func (f *Flow) ReleaseDrives(ctx context.Context, serials []string) error {
	for _, serial := range serials {
		if err := f.DeleteDriveClaim(ctx, DriveClaimName(serial)); err != nil {
			return err
		}
	}
	return nil
}

// deleteAndWait deletes an object and waits until it is gone.
func (f *Flow) deleteAndWait(ctx context.Context, object client.Object, timeout time.Duration) error {
	key := client.ObjectKeyFromObject(object)
	what := fmt.Sprintf("deletion of %T %s", object, key)
	if err := f.client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return Eventually(ctx, what, timeout, func(ctx context.Context) (string, error) {
		err := f.client.Get(ctx, key, object)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("still there, finalizers %v", object.GetFinalizers()), nil
	})
}

// Conditions renders conditions on one line.
func Conditions(conditions []metav1.Condition) string {
	if len(conditions) == 0 {
		return "none"
	}
	parts := make([]string, 0, len(conditions))
	for _, condition := range conditions {
		parts = append(parts, fmt.Sprintf("%s=%s (%s: %s)", condition.Type, condition.Status, condition.Reason, condition.Message))
	}
	return strings.Join(parts, "; ")
}

// Device returns an NVMeDevice.
func (f *Flow) Device(ctx context.Context, name string) (*v1alpha1.NVMeDevice, error) {
	device := &v1alpha1.NVMeDevice{}
	return device, f.client.Get(ctx, client.ObjectKey{Name: name}, device)
}

// DeviceName returns the name of the NVMeDevice with a serial number.
func (f *Flow) DeviceName(ctx context.Context, serial string) (string, error) {
	devices := &v1alpha1.NVMeDeviceList{}
	if err := f.client.List(ctx, devices); err != nil {
		return "", err
	}
	for _, device := range devices.Items {
		if device.Spec.SerialNumber == serial {
			return device.Name, nil
		}
	}
	return "", fmt.Errorf("no NVMeDevice has serial number %s", serial)
}
