package explain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// claimless is a volume whose claim is gone.
func claimless() *explain.Snapshot {
	s := well()
	s.Subject = explain.Subject{Kind: explain.SubjectPartition, Namespace: "distort-system", Name: volumeName}
	s.Claim, s.Pods, s.Attachments, s.VolumeAttachments = nil, nil, nil, nil
	released := ago(time.Minute)
	s.Volume.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased, LastPhaseTransitionTime: &released}
	return s
}

func TestExplainVolumesWithoutClaim(t *testing.T) {
	for name, tc := range map[string]broken{
		"kept": {
			func(s *explain.Snapshot) {
				s.Volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
			},
			want{state: explain.OK, says: "kept by its PersistentVolume"},
		},
		"about to be deleted": {
			func(*explain.Snapshot) {},
			want{explain.Waiting, explain.Claim, "InProgress", "csi controller (pod distort-csi-controller-1)", time.Minute, "is to be deleted", ""},
		},
		"refused to be deleted": {
			func(s *explain.Snapshot) {
				warn(s, "PersistentVolume", volumeName, s.Volume.UID, "VolumeFailedDelete", "rpc error: code = FailedPrecondition desc = attached to consumer-a", 50*time.Second)
			},
			want{explain.Broken, explain.Claim, "FailedPrecondition", "csi controller (pod distort-csi-controller-1)", 50 * time.Second, "attached to consumer-a", ""},
		},
		"being deleted": {
			func(s *explain.Snapshot) { deleted := ago(3 * time.Second); s.Partition.DeletionTimestamp = &deleted },
			want{explain.Waiting, explain.Claim, "InProgress", "agent on node storage-a (pod distort-agent-1)", 3 * time.Second, "is being deleted", ""},
		},
		"not deleted": {
			func(s *explain.Snapshot) {
				deleted := ago(time.Hour)
				s.Partition.DeletionTimestamp = &deleted
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionExported, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "partition is in use", time.Hour))
			},
			want{explain.Broken, explain.Claim, "NoProgress", "agent on node storage-a (pod distort-agent-1)", time.Hour, "partition is in use", ""},
		},
		"left behind": {
			func(s *explain.Snapshot) { s.Volume = nil },
			want{explain.Broken, explain.Claim, "NoProgress", "csi controller (pod distort-csi-controller-1)", time.Hour, "has no PersistentVolume and no claim", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := claimless()
			tc.change(s)
			v := explain.Explain(*s)
			if v.State != tc.state || v.Boundary != tc.boundary || v.Reason != tc.reason || ownerOf(v) != tc.owner {
				t.Errorf("got %s at %q, %q, owner %q; want %+v: %s", v.State, v.Boundary, v.Reason, ownerOf(v), tc.want, v.Message)
			}
			if v.Since == nil != (tc.since == 0) || v.Since != nil && now.Sub(*v.Since) != tc.since {
				t.Errorf("since %v, want %s before %s", v.Since, tc.since, now)
			}
			if !strings.Contains(v.Message, tc.says) {
				t.Errorf("message %q does not say %q", v.Message, tc.says)
			}
			checkSteps(t, v)
		})
	}
}

// TestExplainDoesNotTakeUnreadableForAbsent: whatever a user has no right to see,
// nothing is called missing because of it.
func TestExplainDoesNotTakeUnreadableForAbsent(t *testing.T) {
	hide := map[string]func(*explain.Snapshot){
		explain.KindClass:  func(s *explain.Snapshot) { s.Class = nil },
		explain.KindVolume: func(s *explain.Snapshot) { s.Volume = nil },
		explain.KindPartition: func(s *explain.Snapshot) {
			s.Partition, s.Device, s.Target, s.Lease, s.Attachments = nil, nil, nil, nil, nil
		},
		explain.KindDevice:           func(s *explain.Snapshot) { s.Device = nil },
		explain.KindTarget:           func(s *explain.Snapshot) { s.Target = nil },
		explain.KindLease:            func(s *explain.Snapshot) { s.Lease = nil },
		explain.KindAttachment:       func(s *explain.Snapshot) { s.Attachments = nil },
		explain.KindVolumeAttachment: func(s *explain.Snapshot) { s.VolumeAttachments = nil },
		explain.KindPod:              func(s *explain.Snapshot) { s.Pods = nil },
		explain.KindComponent:        func(s *explain.Snapshot) { s.Components = nil },
		explain.KindNode:             func(s *explain.Snapshot) { s.Nodes = nil },
		explain.KindEvent:            func(s *explain.Snapshot) { s.Events = nil },
	}
	unknown := map[string]explain.Boundary{
		explain.KindPartition: explain.Placement, explain.KindAttachment: explain.Access, explain.KindPod: explain.Access,
	}
	for kind, remove := range hide {
		t.Run(kind, func(t *testing.T) {
			s := well()
			remove(s)
			s.Unreadable = []explain.Unreadable{{Kind: kind, Error: "forbidden"}}
			v := explain.Explain(*s)
			if boundary, needed := unknown[kind]; needed {
				if v.State != explain.Unknown || v.Boundary != boundary {
					t.Errorf("got %s at %q: %s; want %s at %s", v.State, v.Boundary, v.Message, explain.Unknown, boundary)
				}
			} else if v.State != explain.OK {
				t.Errorf("got %s at %q: %s; want %s", v.State, v.Boundary, v.Message, explain.OK)
			}
			if len(v.Unreadable) != 1 {
				t.Errorf("verdict has unreadable %v", v.Unreadable)
			}
		})
	}
}

// TestExplainFindsTheBrokenBoundaryPastOneThatIsNotReadable: a later boundary
// that is seen broken counts more than an earlier one that is not seen.
func TestExplainFindsTheBrokenBoundaryPastOneThatIsNotReadable(t *testing.T) {
	s := well()
	stageFailed(s, "Unavailable", "target is unreachable: no route")
	s.Partition, s.Unreadable = nil, []explain.Unreadable{{Kind: explain.KindPartition, Error: "forbidden"}}
	if v := explain.Explain(*s); v.State != explain.Broken || v.Boundary != explain.Connection {
		t.Errorf("got %s at %q: %s", v.State, v.Boundary, v.Message)
	}
}

func TestExplainSaysWhatADeadAgentDoesNotStop(t *testing.T) {
	s := well()
	renewed := metav1.NewMicroTime(now.Add(-time.Hour))
	s.Lease.Spec.RenewTime = &renewed
	if v := explain.Explain(*s); !strings.Contains(v.Note, "pod demo/app has it mounted") {
		t.Errorf("note is %q", v.Note)
	}
}

func TestExplainNotesThatAVolumeCannotGrow(t *testing.T) {
	s := well()
	set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionResized, metav1.ConditionFalse, v1alpha1.ReasonGrowthNoSpace, "asked for 4Gi, 2Gi are free behind it", time.Minute))
	if v := explain.Explain(*s); v.State != explain.OK || v.Note != "cannot grow: GrowthNoSpace: asked for 4Gi, 2Gi are free behind it" {
		t.Errorf("got %s with note %q", v.State, v.Note)
	}
}

func TestSubjectsAreSortedClaimsFirst(t *testing.T) {
	of := func(kind, namespace, name string) explain.Verdict {
		return explain.Verdict{Subject: explain.Subject{Kind: kind, Namespace: namespace, Name: name}}
	}
	all := []explain.Verdict{of("nvmepartition", "a", "a"), of("pvc", "b", "a"), of("pvc", "a", "b"), of("pvc", "a", "a")}
	explain.Sort(all)
	var got []string
	for _, v := range all {
		got = append(got, v.Subject.String())
	}
	if want := "pvc a/a, pvc a/b, pvc b/a, nvmepartition a/a"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 12 * time.Second: "12s", 3*time.Minute + 12*time.Second: "3m12s", 5 * time.Minute: "5m",
		59 * time.Minute: "59m", 5*time.Hour + time.Minute: "5h", 50 * time.Hour: "2d",
	} {
		if got := explain.Age(d); got != want {
			t.Errorf("Age(%s) = %q, want %q", d, got, want)
		}
	}
}
