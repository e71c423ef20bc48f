package access

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func TestNewerNeverReplacesAFinishedFormat(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	planned := &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: "1"}
	started := &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: "1", FormatStartedAt: &now}
	finished := &v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: "1", FormatStartedAt: &now, FormattedAt: &now}
	recovered := finished.DeepCopy()
	recovered.RecoveredAt = &now
	otherRecovered := &v1alpha1.FilesystemStatus{Type: v1alpha1.XFS, UUID: "2", FormattedAt: &now, RecoveredAt: &now}
	other := &v1alpha1.FilesystemStatus{Type: v1alpha1.XFS, UUID: "2", FormatStartedAt: &now, FormattedAt: &now}
	for name, c := range map[string]struct {
		have, seen *v1alpha1.FilesystemStatus
		want       *v1alpha1.FilesystemStatus
	}{
		"nothing and nothing":       {nil, nil, nil},
		"first word of it":          {nil, planned, planned},
		"started after planned":     {planned, started, started},
		"finished after started":    {started, finished, finished},
		"finished after nothing":    {nil, finished, finished},
		"the same start":            {started, started, nil},
		"the same finish":           {finished, finished, nil},
		"started after finished":    {finished, started, nil},
		"another one's finish":      {finished, other, nil},
		"nothing after finished":    {finished, nil, nil},
		"recovered after finished":  {finished, recovered, recovered},
		"the same recovery":         {recovered, recovered.DeepCopy(), nil},
		"finished after recovered":  {recovered, finished, nil},
		"another one's recovery":    {finished, otherRecovered, nil},
		"planned again, of a start": {started, planned, nil},
	} {
		if got := newer(c.have, c.seen); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
