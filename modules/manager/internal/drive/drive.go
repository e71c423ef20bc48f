// Package drive answers what every controller asks of an NVMeDevice.
package drive

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Unusable says why the drive cannot be claimed now, as the reason and message
// of the condition that forbids it; ok is true when it can.
func Unusable(device *v1alpha1.NVMeDevice) (reason, message string, ok bool) {
	for _, kind := range []string{v1alpha1.ConditionHardwareAvailable, v1alpha1.ConditionMediaUsable} {
		c := meta.FindStatusCondition(device.Status.Conditions, kind)
		if c == nil {
			return "NotObserved", "condition " + kind + " is not known yet", false
		}
		if c.Status != metav1.ConditionTrue {
			return c.Reason, c.Message, false
		}
	}
	return "", "", true
}
