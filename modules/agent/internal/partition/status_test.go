package partition

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// at is a scope that came as far as the given step of: nothing, drive, slice,
// export.
func at(steps int, before v1alpha1.NVMePartitionStatus, f *failure) *scope {
	p := &v1alpha1.NVMePartition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "distort-system", Name: "pvc-1", UID: "6f1c2a34-0000-4000-8000-000000000001", Generation: 3},
		Spec: v1alpha1.NVMePartitionSpec{
			NodeName: "storage-0", ParentDeviceSerialNumber: "S1",
			ClaimRef: &v1alpha1.ObjectReference{Namespace: "a", Name: "claim", UID: "u"},
		},
		Status: before,
	}
	s := &scope{partition: p, failure: f}
	if steps > 0 {
		s.drive = inventory.Drive{Serial: "S1"}
	}
	if steps > 1 {
		s.slice = &carve.Volume{UUID: "0d", SizeBytes: 4 << 20}
	}
	if steps > 2 {
		s.exported = &volume.Outcome{}
		s.exported.Portals = []v1alpha1.Portal{{Transport: v1alpha1.TransportTCP, Address: "10.0.0.1", Port: 4420}}
	}
	return s
}

func TestConditionsSayWhatThePassFound(t *testing.T) {
	exported := statusOf(at(3, v1alpha1.NVMePartitionStatus{}, nil))
	fail := func(condition, reason string, r remedy) *failure {
		return &failure{condition, reason, r, errors.New("because")}
	}
	for name, c := range map[string]struct {
		scope *scope
		want  map[string]string
		state v1alpha1.PartitionState
	}{
		"all done": {
			scope: at(3, v1alpha1.NVMePartitionStatus{}, nil),
			want: map[string]string{
				"Placed": "True/Placed", "ClaimAuthorized": "True/ClaimMatches", "Provisioned": "True/Carved", "Exported": "True/Exported",
			},
			state: v1alpha1.PartitionExported,
		},
		"a new one waits for its drive": {
			scope: at(0, v1alpha1.NVMePartitionStatus{}, fail(v1alpha1.ConditionClaimAuthorized, v1alpha1.ReasonDeviceMissing, waitForEvent)),
			want:  map[string]string{"Placed": "True/Placed", "ClaimAuthorized": "False/DeviceMissing"},
			state: v1alpha1.PartitionPending,
		},
		"an exported one lost its drive": {
			scope: at(0, exported, fail(v1alpha1.ConditionClaimAuthorized, v1alpha1.ReasonDeviceMissing, waitForHost)),
			want: map[string]string{
				"Placed": "True/Placed", "ClaimAuthorized": "False/DeviceMissing", "Provisioned": "True/Carved", "Exported": "False/ExportFailed",
			},
			state: v1alpha1.PartitionCreating,
		},
		"a new one finds no space": {
			scope: at(1, v1alpha1.NVMePartitionStatus{}, fail(v1alpha1.ConditionProvisioned, v1alpha1.ReasonNoSpace, needsPerson)),
			want:  map[string]string{"Placed": "True/Placed", "ClaimAuthorized": "True/ClaimMatches", "Provisioned": "False/NoSpace"},
			state: v1alpha1.PartitionFailed,
		},
		"an exported one lost its slice": {
			scope: at(1, exported, fail(v1alpha1.ConditionProvisioned, v1alpha1.ReasonDataLoss, needsPerson)),
			want: map[string]string{
				"Placed": "True/Placed", "ClaimAuthorized": "True/ClaimMatches", "Provisioned": "False/DataLoss", "Exported": "False/ExportFailed",
			},
			state: v1alpha1.PartitionFailed,
		},
		"carved, and the target refuses": {
			scope: at(2, v1alpha1.NVMePartitionStatus{}, fail(v1alpha1.ConditionExported, v1alpha1.ReasonExportFailed, tryAgain)),
			want: map[string]string{
				"Placed": "True/Placed", "ClaimAuthorized": "True/ClaimMatches", "Provisioned": "True/Carved", "Exported": "False/ExportFailed",
			},
			state: v1alpha1.PartitionCreating,
		},
		"placement had failed before": {
			scope: at(3, v1alpha1.NVMePartitionStatus{Conditions: []metav1.Condition{
				{Type: v1alpha1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoCandidate}}}, nil),
			want: map[string]string{
				"Placed": "True/Placed", "ClaimAuthorized": "True/ClaimMatches", "Provisioned": "True/Carved", "Exported": "True/Exported",
			},
			state: v1alpha1.PartitionExported,
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := statusOf(c.scope)
			got := map[string]string{}
			for _, cond := range st.Conditions {
				got[cond.Type] = string(cond.Status) + "/" + cond.Reason
				if cond.ObservedGeneration != 3 {
					t.Errorf("%s: observedGeneration %d, want 3", cond.Type, cond.ObservedGeneration)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if st.State != c.state {
				t.Errorf("state = %s, want %s", st.State, c.state)
			}
			c.scope.partition.Status = st
			if again := statusOf(c.scope); !cmp.Equal(st, again) {
				t.Errorf("the same finding gives another status:\n%s", cmp.Diff(st, again))
			}
		})
	}
}

func TestARecordSurvivesAFailure(t *testing.T) {
	exported := statusOf(at(3, v1alpha1.NVMePartitionStatus{}, nil))
	st := statusOf(at(0, exported, &failure{v1alpha1.ConditionClaimAuthorized, v1alpha1.ReasonDeviceMissing, waitForHost, errors.New("gone")}))
	st.Conditions, exported.Conditions, st.State, exported.State = nil, nil, "", ""
	if diff := cmp.Diff(exported, st); diff != "" {
		t.Errorf("what is recorded of the slice (-before +after):\n%s", diff)
	}
}

func TestLongMessagesAreBounded(t *testing.T) {
	st := statusOf(at(0, v1alpha1.NVMePartitionStatus{},
		&failure{v1alpha1.ConditionProvisioned, v1alpha1.ReasonCarveFailed, tryAgain, errors.New(strings.Repeat("x", 1<<20))}))
	for _, c := range st.Conditions {
		if len(c.Message) > 32768 {
			t.Errorf("%s has a message of %d bytes, which the API refuses", c.Type, len(c.Message))
		}
	}
}
