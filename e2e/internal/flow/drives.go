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

// claimName is the name of the claim of a drive.
func claimName(serial string) string { return "drive-" + strings.ToLower(serial) }

// ClaimDrives claims drives by serial number and waits until each is Bound.
func (f *Flow) ClaimDrives(ctx context.Context, serials []string) error {
	for _, serial := range serials {
		claim := &v1alpha1.NVMeDeviceClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claimName(serial), Namespace: v1alpha1.DefaultNamespace},
			Spec:       v1alpha1.NVMeDeviceClaimSpec{SerialNumber: serial},
		}
		if err := f.client.Create(ctx, claim); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("claim drive %s: %w", serial, err)
		}
	}
	for _, serial := range serials {
		if err := f.waitClaim(ctx, serial); err != nil {
			return err
		}
	}
	return nil
}

func (f *Flow) waitClaim(ctx context.Context, serial string) error {
	return Eventually(ctx, "claim of drive "+serial+" becomes Bound", driveTimeout, func(ctx context.Context) (string, error) {
		claim := &v1alpha1.NVMeDeviceClaim{}
		if err := f.client.Get(ctx, client.ObjectKey{Namespace: v1alpha1.DefaultNamespace, Name: claimName(serial)}, claim); err != nil {
			return "", err
		}
		if claim.Status.Active && meta.IsStatusConditionTrue(claim.Status.Conditions, v1alpha1.ConditionBound) {
			return "", nil
		}
		return "conditions: " + Conditions(claim.Status.Conditions), nil
	})
}

// ReleaseDrives deletes the claims and waits until they are gone.
func (f *Flow) ReleaseDrives(ctx context.Context, serials []string) error {
	for _, serial := range serials {
		claim := &v1alpha1.NVMeDeviceClaim{ObjectMeta: metav1.ObjectMeta{Name: claimName(serial), Namespace: v1alpha1.DefaultNamespace}}
		if err := f.deleteAndWait(ctx, claim, releaseTimeout); err != nil {
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
