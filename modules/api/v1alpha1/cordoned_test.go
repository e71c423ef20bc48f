package v1alpha1_test

import (
	"testing"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func TestCordoned(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"no annotation": {nil, false},
		"another one":   {map[string]string{v1alpha1.AbandonDataAnnotation: "true"}, false},
		"true":          {map[string]string{v1alpha1.CordonedAnnotation: "true"}, true},
		"empty":         {map[string]string{v1alpha1.CordonedAnnotation: ""}, true},
		"a reason":      {map[string]string{v1alpha1.CordonedAnnotation: "until Monday"}, true},
		"false":         {map[string]string{v1alpha1.CordonedAnnotation: "false"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			device := &v1alpha1.NVMeDevice{}
			device.Annotations = c.annotations
			if got := v1alpha1.Cordoned(device); got != c.want {
				t.Errorf("Cordoned = %t, want %t", got, c.want)
			}
		})
	}
}
