package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cordoned tells whether new volumes are kept away from an NVMeDevice or a
// StorageNode: any value of CordonedAnnotation but "false" does.
func Cordoned(o metav1.Object) bool {
	value, set := o.GetAnnotations()[CordonedAnnotation]
	return set && value != "false"
}
