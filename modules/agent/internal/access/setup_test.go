package access

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func TestAgentIsWokenByWhatOthersWrite(t *testing.T) {
	says := func(reason string) func(*v1alpha1.NVMeVolumeAttachment) {
		return func(a *v1alpha1.NVMeVolumeAttachment) {
			a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccessReady, Reason: reason}}
		}
	}
	for name, c := range map[string]struct {
		before, after func(*v1alpha1.NVMeVolumeAttachment)
		wakes         bool
	}{
		"the agent's own word":       {says(v1alpha1.ReasonGranted), says(v1alpha1.ReasonRevoking), false},
		"called silent":              {says(v1alpha1.ReasonRevoking), says(v1alpha1.ReasonStorageNodeSilent), true},
		"called silent again":        {says(v1alpha1.ReasonStorageNodeSilent), says(v1alpha1.ReasonStorageNodeSilent), false},
		"the agent overtook that":    {says(v1alpha1.ReasonStorageNodeSilent), says(v1alpha1.ReasonRevoking), false},
		"a format record":            {says(v1alpha1.ReasonGranted), func(a *v1alpha1.NVMeVolumeAttachment) { a.Status.Filesystem = &v1alpha1.FilesystemStatus{} }, true},
		"the deletion, a generation": {says(v1alpha1.ReasonGranted), func(a *v1alpha1.NVMeVolumeAttachment) { a.Generation++ }, true},
	} {
		before, after := &v1alpha1.NVMeVolumeAttachment{}, &v1alpha1.NVMeVolumeAttachment{}
		c.before(before)
		c.after(after)
		if got := attachmentChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.wakes {
			t.Errorf("%s: wakes the agent: %t, want %t", name, got, c.wakes)
		}
	}
}
