package explain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/explain"
)

// want is what a verdict must say. Since is how long ago; Says and Next are parts
// of the message and of the command.
type want struct {
	state    explain.State
	boundary explain.Boundary
	reason   string
	owner    string
	since    time.Duration
	says     string
	next     string
}

type broken struct {
	change func(*explain.Snapshot)
	want
}

// TestExplainNamesTheFirstBrokenBoundary breaks each boundary in each way that
// its component reports.
func TestExplainNamesTheFirstBrokenBoundary(t *testing.T) {
	for name, tc := range map[string]broken{
		"StorageClass missing": {
			func(s *explain.Snapshot) { pending(s, time.Minute); s.Class = nil },
			want{explain.Broken, explain.Claim, "StorageClassNotFound", "user", time.Minute, "StorageClass distort-tcp does not exist", "describe pvc data"},
		},
		"StorageClass with a bad parameter": {
			func(s *explain.Snapshot) {
				pending(s, 3*time.Minute)
				provisionFailed(s, `rpc error: code = InvalidArgument desc = parameter "transprot": unknown`)
			},
			want{explain.Broken, explain.Claim, "InvalidArgument", "user", 2 * time.Minute, `parameter "transprot": unknown`, "describe pvc data"},
		},
		"no csi controller": {
			func(s *explain.Snapshot) { pending(s, time.Minute); s.Components = s.Components[:1] },
			want{explain.Broken, explain.Claim, "NotRunning", "csi controller", time.Minute, "no pod of the csi-controller", "get pods"},
		},
		"claim lost": {
			func(s *explain.Snapshot) { s.Claim.Status.Phase = corev1.ClaimLost },
			want{explain.Broken, explain.Claim, "Lost", "user", time.Hour, "lost its PersistentVolume", "describe pvc"},
		},
		"claim that a pod names and nobody made": {
			func(s *explain.Snapshot) { s.Claim, s.Volume, s.Partition = nil, nil, nil },
			want{explain.Broken, explain.Claim, "NotFound", "user", 0, "demo/data does not exist", ""},
		},
		"claim bound to a volume that is gone": {
			func(s *explain.Snapshot) { s.Volume = nil },
			want{explain.Broken, explain.Claim, "NotFound", "user", 0, "PersistentVolume pvc-", "describe pvc"},
		},
		"volume with a foreign handle": {
			func(s *explain.Snapshot) { s.Volume.Spec.CSI.VolumeHandle = "disk-1" },
			want{explain.Broken, explain.Claim, "InvalidHandle", "user", 0, "malformed handle", "describe pvc"},
		},

		"no capacity": {
			func(s *explain.Snapshot) {
				unplaced(s, time.Minute)
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoCandidate, "0/2 drives can hold 1Gi: 2 insufficient space", 30*time.Second))
			},
			want{explain.Broken, explain.Placement, v1alpha1.ReasonNoCandidate, "manager (pod distort-manager-1)", 30 * time.Second, "2 insufficient space", "kubectl distort capacity"},
		},
		"no capacity, and the request is withdrawn": {
			func(s *explain.Snapshot) {
				pending(s, 3*time.Minute)
				provisionFailed(s, `rpc error: code = ResourceExhausted desc = create volume "pvc-1": no capacity: 0/2 drives can hold 1Gi: 2 insufficient space`)
			},
			want{explain.Broken, explain.Placement, "ResourceExhausted", "manager (pod distort-manager-1)", 2 * time.Minute, "2 insufficient space", "kubectl distort capacity"},
		},
		"no manager": {
			func(s *explain.Snapshot) { unplaced(s, time.Minute); s.Components = s.Components[1:] },
			want{explain.Broken, explain.Placement, "NotRunning", "manager", time.Minute, "no pod of the manager", "component=manager"},
		},
		"manager that does nothing": {
			func(s *explain.Snapshot) { unplaced(s, 20*time.Minute) },
			want{explain.Broken, explain.Placement, "NoProgress", "manager (pod distort-manager-1)", 20 * time.Minute, "nothing happened for 20m", "logs distort-manager-1"},
		},
		"partition gone": {
			func(s *explain.Snapshot) { s.Partition = nil },
			want{explain.Broken, explain.Placement, "NotFound", "csi controller (pod distort-csi-controller-1)", 0, "does not exist", "logs distort-csi-controller-1"},
		},
		"partition made anew": {
			func(s *explain.Snapshot) { s.Partition.UID = claimUID },
			want{explain.Broken, explain.Placement, "Recreated", "csi controller (pod distort-csi-controller-1)", time.Hour, "another volume", ""},
		},
		"partition deleted under its claim": {
			func(s *explain.Snapshot) { deleted := ago(time.Minute); s.Partition.DeletionTimestamp = &deleted },
			want{explain.Broken, explain.Placement, "Deleting", "csi controller (pod distort-csi-controller-1)", time.Minute, "deleted under its claim", ""},
		},

		"agent dead": {
			func(s *explain.Snapshot) {
				set(&s.Target.Status.Conditions, condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired, "Lease was last renewed", 4*time.Minute))
				renewed := metav1.NewMicroTime(now.Add(-5 * time.Minute))
				s.Lease.Spec.RenewTime = &renewed
				s.Components[2].Status.Conditions[0].Status = corev1.ConditionFalse
				s.Components[2].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"},
				}}}
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonHeartbeatExpired, "agent on node storage-a (pod distort-agent-1)", 4 * time.Minute, "silent", "logs distort-agent-1"},
		},
		"agent dead while access is to be withdrawn": {
			func(s *explain.Snapshot) {
				set(&s.Target.Status.Conditions, condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired, "Lease was last renewed", 4*time.Minute))
				deleted := ago(3 * time.Minute)
				s.Attachments[0].DeletionTimestamp = &deleted
				set(&s.Attachments[0].Status.Conditions, condition(v1alpha1.ConditionAccessReady, metav1.ConditionUnknown, v1alpha1.ReasonStorageNodeSilent, "no proof of a drain", 3*time.Minute))
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonHeartbeatExpired, "agent on node storage-a (pod distort-agent-1)", 4 * time.Minute, "access of node consumer-a is not proven to be revoked", "logs distort-agent-1"},
		},
		"agent dead, and no manager that says so": {
			func(s *explain.Snapshot) {
				renewed := metav1.NewMicroTime(now.Add(-2 * time.Minute))
				s.Lease.Spec.RenewTime = &renewed
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonHeartbeatExpired, "agent on node storage-a (pod distort-agent-1)", 75 * time.Second, "silent", ""},
		},
		"storage node forgotten": {
			func(s *explain.Snapshot) { s.Target = nil },
			want{explain.Broken, explain.Storage, "NotFound", "agent on node storage-a (pod distort-agent-1)", 0, "never reported", ""},
		},
		"drive pulled": {
			func(s *explain.Snapshot) {
				set(&s.Device.Status.Conditions, condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNotFound, "not seen", time.Minute))
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonNotFound, "agent on node storage-a (pod distort-agent-1)", time.Minute, "not seen", ""},
		},
		"drive of another claim": {
			func(s *explain.Snapshot) {
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionClaimAuthorized, metav1.ConditionFalse, v1alpha1.ReasonClaimMismatch, "belongs to claim x", time.Minute))
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonClaimMismatch, "manager (pod distort-manager-1)", time.Minute, "belongs to claim x", ""},
		},
		"slice lost": {
			func(s *explain.Snapshot) {
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionProvisioned, metav1.ConditionFalse, v1alpha1.ReasonDataLoss, "the recorded slice is lost", time.Minute))
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionExported, metav1.ConditionFalse, v1alpha1.ReasonExportFailed, "not verified", time.Minute))
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonDataLoss, "agent on node storage-a (pod distort-agent-1)", time.Minute, "slice is lost", ""},
		},
		"drive with somebody's data": {
			func(s *explain.Snapshot) {
				unset(&s.Partition.Status.Conditions, v1alpha1.ConditionProvisioned, v1alpha1.ConditionExported)
				set(&s.Device.Status.Conditions, condition(v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonForeignSignature, "xfs", time.Minute))
			},
			want{explain.Broken, explain.Storage, v1alpha1.ReasonForeignSignature, "agent on node storage-a (pod distort-agent-1)", time.Minute, "xfs", ""},
		},
		"carving refused, and the request is withdrawn": {
			func(s *explain.Snapshot) {
				pending(s, 3*time.Minute)
				provisionFailed(s, `rpc error: code = FailedPrecondition desc = create volume "pvc-1": failed: Provisioned=False, DriveRefused: in use`)
			},
			want{explain.Broken, explain.Storage, "FailedPrecondition", "agent", 2 * time.Minute, "DriveRefused: in use", "component=agent"},
		},

		"target broken": {
			func(s *explain.Snapshot) {
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionExported, metav1.ConditionFalse, v1alpha1.ReasonExportFailed, "enable namespace 1: no such file", 90*time.Second))
			},
			want{explain.Broken, explain.Export, v1alpha1.ReasonExportFailed, "agent on node storage-a (pod distort-agent-1)", 90 * time.Second, "enable namespace 1", "logs distort-agent-1"},
		},
		"no portal for the transport": {
			func(s *explain.Snapshot) {
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionExported, metav1.ConditionFalse, v1alpha1.ReasonNoPortal, "no rdma address", time.Minute))
			},
			want{explain.Broken, explain.Export, v1alpha1.ReasonNoPortal, "agent on node storage-a (pod distort-agent-1)", time.Minute, "no rdma address", ""},
		},

		"pod that fits nowhere": {
			func(s *explain.Snapshot) {
				s.Pods[0].Spec.NodeName = ""
				s.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/2 nodes are available", LastTransitionTime: ago(time.Minute),
				}}}
			},
			want{explain.Broken, explain.Access, "Unschedulable", "scheduler", time.Minute, "0/2 nodes are available", "describe pod app"},
		},
		"host not allowed": {
			func(s *explain.Snapshot) {
				starting(s, 3*time.Minute)
				set(&s.Attachments[0].Status.Conditions, condition(v1alpha1.ConditionAccessReady, metav1.ConditionFalse, v1alpha1.ReasonGrantFailed, "link host: device busy", 2*time.Minute))
				s.VolumeAttachments[0].Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "rpc error: code = DeadlineExceeded desc = later", Time: ago(time.Minute)}}
			},
			want{explain.Broken, explain.Access, v1alpha1.ReasonGrantFailed, "agent on node storage-a (pod distort-agent-1)", 2 * time.Minute, "link host: device busy", "logs distort-agent-1"},
		},
		"host not allowed, although it is said to be": {
			func(s *explain.Snapshot) {
				stageFailed(s, "Unavailable", "connect nqn.2026-02.io.distort:volume-vol-1 at tcp://10.0.0.1:4420: target refused the connection: this host is not allowed there or the subsystem does not exist: input/output error")
			},
			want{explain.Broken, explain.Access, "Unavailable", "agent on node storage-a (pod distort-agent-1)", 2 * time.Minute, "not allowed there", "logs distort-agent-1"},
		},
		"another node is admitted": {
			func(s *explain.Snapshot) { starting(s, time.Minute); s.Attachments[0].Spec.NodeID = "consumer-b" },
			want{explain.Broken, explain.Access, "HeldByAnotherNode", "csi controller (pod distort-csi-controller-1)", 50 * time.Minute, "the target admits node consumer-b", ""},
		},
		"access of the last node cannot be revoked": {
			func(s *explain.Snapshot) {
				deleted := ago(8 * time.Minute)
				s.Attachments[0].DeletionTimestamp = &deleted
				set(&s.Attachments[0].Status.Conditions, condition(v1alpha1.ConditionAccessReady, metav1.ConditionFalse, v1alpha1.ReasonRevoking, "namespace still drains", 7*time.Minute))
				s.Pods = nil
			},
			want{explain.Broken, explain.Access, v1alpha1.ReasonRevoking, "agent on node storage-a (pod distort-agent-1)", 7 * time.Minute, "still drains", "logs distort-agent-1"},
		},
		"attach refused": {
			func(s *explain.Snapshot) {
				starting(s, time.Minute)
				s.Attachments = nil
				s.VolumeAttachments[0].Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{
					Message: "rpc error: code = NotFound desc = node consumer-a is not known", Time: ago(20 * time.Second),
				}}
			},
			want{explain.Broken, explain.Access, "NotFound", "csi controller (pod distort-csi-controller-1)", 20 * time.Second, "node consumer-a is not known", ""},
		},
		"Kubernetes does not attach": {
			func(s *explain.Snapshot) {
				starting(s, 3*time.Minute)
				s.Attachments, s.VolumeAttachments = nil, nil
				warn(s, "Pod", "app", podUID, "FailedAttachVolume", `Multi-Attach error for volume "`+volumeName+`"`, time.Minute)
			},
			want{explain.Broken, explain.Access, "FailedAttachVolume", "attach-detach controller of Kubernetes", time.Minute, "Multi-Attach", "describe pod app"},
		},

		"portal unreachable": {
			func(s *explain.Snapshot) {
				stageFailed(s, "Unavailable", "connect nqn.2026-02.io.distort:volume-vol-1 at tcp://10.0.0.1:4420: target is unreachable: nothing listens there: connection refused")
			},
			want{explain.Broken, explain.Connection, "Unavailable", "csi node on node consumer-a (pod distort-csi-node-1)", 2 * time.Minute, "nothing listens there", "logs distort-csi-node-1"},
		},
		"host cannot speak the transport": {
			func(s *explain.Snapshot) {
				stageFailed(s, "FailedPrecondition", "connect nqn.x at rdma://10.0.0.1:4421: not supported by this host: load nvme-rdma: no such device")
			},
			want{explain.Broken, explain.Connection, "FailedPrecondition", "csi node on node consumer-a (pod distort-csi-node-1)", 2 * time.Minute, "load nvme-rdma", ""},
		},
		"device with another identity": {
			func(s *explain.Snapshot) {
				stageFailed(s, "FailedPrecondition", "nqn.x nsid 1: no namespace has the UUID (controllers: nvme0 live; namespaces seen: nsid 1 uuid 2)")
			},
			want{explain.Broken, explain.Connection, "FailedPrecondition", "csi node on node consumer-a (pod distort-csi-node-1)", 2 * time.Minute, "no namespace has the UUID", ""},
		},
		"driver not registered with the kubelet": {
			func(s *explain.Snapshot) {
				mountFailed(s, `MountVolume.MountDevice failed for volume "`+volumeName+`" : kubernetes.io/csi: driver name storage.distort.io not found in the list of registered CSI drivers`)
			},
			want{explain.Broken, explain.Connection, "FailedMount", "csi node on node consumer-a (pod distort-csi-node-1)", 2 * time.Minute, "registered CSI drivers", ""},
		},
		"no csi node": {
			func(s *explain.Snapshot) { starting(s, time.Minute); s.Components = s.Components[:3] },
			want{explain.Broken, explain.Connection, "NotRunning", "csi node on node consumer-a", 0, "no pod of the csi-node", "spec.nodeName=consumer-a"},
		},

		"wrong filesystem on the device": {
			func(s *explain.Snapshot) {
				stageFailed(s, "FailedPrecondition", "refused to use the device: recorded filesystem is ext4 1, /dev/nvme0n1 holds xfs 2")
			},
			want{explain.Broken, explain.Mount, "FailedPrecondition", "csi node on node consumer-a (pod distort-csi-node-1)", 2 * time.Minute, "recorded filesystem is ext4", "logs distort-csi-node-1"},
		},
		"publish failed": {
			func(s *explain.Snapshot) {
				mountFailed(s, `MountVolume.SetUp failed for volume "`+volumeName+`" : rpc error: code = FailedPrecondition desc = volume x is not staged`)
			},
			want{explain.Broken, explain.Mount, "FailedPrecondition", "csi node on node consumer-a (pod distort-csi-node-1)", 2 * time.Minute, "is not staged", ""},
		},
		"kubelet fails to mount": {
			func(s *explain.Snapshot) {
				mountFailed(s, `MountVolume.SetUp failed for volume "`+volumeName+`" : applyFSGroup failed: read-only file system`)
			},
			want{explain.Broken, explain.Mount, "FailedMount", "kubelet on node consumer-a", 2 * time.Minute, "applyFSGroup failed", "describe pod app"},
		},
		"kubelet runs out of time": {
			func(s *explain.Snapshot) {
				mountFailed(s, `Unable to attach or mount volumes: unmounted volumes=[other data], unattached volumes=[], failed to process volumes=[]: context deadline exceeded`)
			},
			want{explain.Broken, explain.Mount, "FailedMount", "kubelet on node consumer-a", 2 * time.Minute, "deadline exceeded", "describe pod app"},
		},
		"kubelet never mounts": {
			func(s *explain.Snapshot) { starting(s, 10*time.Minute) },
			want{explain.Broken, explain.Mount, "NoProgress", "kubelet on node consumer-a", 10 * time.Minute, "nothing happened for 10m", "describe pod app"},
		},
		"kubelet dead": {
			func(s *explain.Snapshot) {
				starting(s, time.Minute)
				s.Nodes[1] = kubeNode(consumer, corev1.ConditionUnknown)
			},
			want{explain.Broken, explain.Mount, "KubeletSays", "kubelet on node consumer-a", 7 * time.Minute, "is not ready", "describe node consumer-a"},
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc) })
	}
}

// TestExplainTellsProgressFromFailure: what is under way is not broken, and what
// is old news is not either.
func TestExplainTellsProgressFromFailure(t *testing.T) {
	for name, tc := range map[string]broken{
		"well": {
			func(*explain.Snapshot) {},
			want{state: explain.OK, says: "pod demo/app on node consumer-a has it"},
		},
		"well, with warnings from before": {
			func(s *explain.Snapshot) {
				warn(s, "Pod", "app", podUID, "FailedMount", `MountVolume.MountDevice failed for volume "`+volumeName+`" : rpc error: code = Unavailable desc = target is unreachable`, time.Hour)
				provisionFailed(s, "rpc error: code = ResourceExhausted desc = no capacity")
			},
			want{state: explain.OK, says: "has it"},
		},
		"no pod uses it": {
			func(s *explain.Snapshot) { s.Pods, s.Attachments, s.VolumeAttachments = nil, nil, nil },
			want{state: explain.OK, says: "no pod uses it"},
		},
		"the pod has ended": {
			func(s *explain.Snapshot) {
				s.Pods[0].Status.Phase = corev1.PodSucceeded
				s.Attachments, s.VolumeAttachments = nil, nil
			},
			want{state: explain.OK, says: "no pod uses it"},
		},
		"waits for its first pod": {
			func(s *explain.Snapshot) {
				pending(s, 24*time.Hour)
				late := storagev1.VolumeBindingWaitForFirstConsumer
				s.Class.VolumeBindingMode = &late
			},
			want{state: explain.OK, says: "waits for a pod"},
		},
		"just asked for": {
			func(s *explain.Snapshot) { pending(s, 10*time.Second) },
			want{explain.Waiting, explain.Claim, "InProgress", "csi controller (pod distort-csi-controller-1)", 10 * time.Second, "not asked for yet", ""},
		},
		"being placed": {
			func(s *explain.Snapshot) { unplaced(s, 3*time.Second) },
			want{explain.Waiting, explain.Placement, "InProgress", "manager (pod distort-manager-1)", 3 * time.Second, "not placed yet", ""},
		},
		"being carved": {
			func(s *explain.Snapshot) {
				s.Partition.CreationTimestamp = ago(20 * time.Second)
				s.Partition.Status.Conditions = nil
			},
			want{explain.Waiting, explain.Storage, "InProgress", "agent on node storage-a (pod distort-agent-1)", 20 * time.Second, "not carved yet", ""},
		},
		"being exported": {
			func(s *explain.Snapshot) {
				unset(&s.Partition.Status.Conditions, v1alpha1.ConditionExported)
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionProvisioned, metav1.ConditionTrue, v1alpha1.ReasonCarved, "", 5*time.Second))
			},
			want{explain.Waiting, explain.Export, "InProgress", "agent on node storage-a (pod distort-agent-1)", 5 * time.Second, "not exported yet", ""},
		},
		"exported, and not bound yet": {
			func(s *explain.Snapshot) {
				s.Claim.Status.Phase, s.Claim.Spec.VolumeName, s.Volume = corev1.ClaimPending, "", nil
				set(&s.Partition.Status.Conditions, condition(v1alpha1.ConditionExported, metav1.ConditionTrue, v1alpha1.ReasonExported, "", 2*time.Second))
			},
			want{explain.Waiting, explain.Claim, "InProgress", "csi controller (pod distort-csi-controller-1)", 2 * time.Second, "not bound to it yet", ""},
		},
		"the agent starts": {
			func(s *explain.Snapshot) {
				set(&s.Target.Status.Conditions, condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAgentStarting, "has not looked", 4*time.Second))
			},
			want{explain.Waiting, explain.Storage, "InProgress", "agent on node storage-a (pod distort-agent-1)", 4 * time.Second, "the agent starts", ""},
		},
		"being admitted": {
			func(s *explain.Snapshot) {
				starting(s, 9*time.Second)
				s.Attachments[0].Status.ObservedAttachmentID = "" // what is said is of an earlier lifetime
				s.Attachments[0].CreationTimestamp = ago(8 * time.Second)
			},
			want{explain.Waiting, explain.Access, "InProgress", "agent on node storage-a (pod distort-agent-1)", 8 * time.Second, "not admitted yet", ""},
		},
		"being attached": {
			func(s *explain.Snapshot) { starting(s, 6*time.Second); s.Attachments, s.VolumeAttachments = nil, nil },
			want{explain.Waiting, explain.Access, "InProgress", "attach-detach controller of Kubernetes", 6 * time.Second, "not attached", "describe pod app"},
		},
		"being detached": {
			func(s *explain.Snapshot) {
				deleted := ago(5 * time.Second)
				s.Attachments[0].DeletionTimestamp, s.Pods = &deleted, nil
			},
			want{explain.Waiting, explain.Access, "InProgress", "agent on node storage-a (pod distort-agent-1)", 5 * time.Second, "is being withdrawn", ""},
		},
		"half way: attached, and not mounted yet": {
			func(s *explain.Snapshot) { starting(s, 12*time.Second) },
			want{explain.Waiting, explain.Mount, "InProgress", "kubelet on node consumer-a", 12 * time.Second, "not mounted yet", "describe pod app"},
		},
		"a warning about another volume of the pod": {
			func(s *explain.Snapshot) {
				mountFailed(s, `MountVolume.SetUp failed for volume "config" : configmap "x" not found`)
			},
			want{explain.Waiting, explain.Mount, "InProgress", "kubelet on node consumer-a", 3 * time.Minute, "not mounted yet", ""},
		},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc) })
	}
}

func check(t *testing.T, tc broken) {
	t.Helper()
	s := well()
	tc.change(s)
	v := explain.Explain(*s)
	if v.State != tc.state || v.Boundary != tc.boundary || v.Reason != tc.reason {
		t.Errorf("got %s at %q, %q; want %s at %q, %q: %s", v.State, v.Boundary, v.Reason, tc.state, tc.boundary, tc.reason, v.Message)
	}
	if owner := ownerOf(v); owner != tc.owner {
		t.Errorf("owner %q, want %q", owner, tc.owner)
	}
	var since time.Duration
	if v.Since != nil {
		since = now.Sub(*v.Since)
	}
	if since != tc.since {
		t.Errorf("since %s ago, want %s", since, tc.since)
	}
	if !strings.Contains(v.Message, tc.says) {
		t.Errorf("message %q does not say %q", v.Message, tc.says)
	}
	if !strings.Contains(v.Next, tc.next) {
		t.Errorf("next command %q, want one with %q", v.Next, tc.next)
	}
	if tc.state == explain.Broken && (len(v.Evidence) == 0 && tc.reason != "NoProgress") {
		t.Error("broken without evidence")
	}
	checkSteps(t, v)
}

// checkSteps checks that the steps agree with the verdict: each boundary once,
// nothing after the first that is not passed.
func checkSteps(t *testing.T, v explain.Verdict) {
	t.Helper()
	order := []explain.Boundary{explain.Claim, explain.Placement, explain.Storage, explain.Export, explain.Access, explain.Connection, explain.Mount}
	if len(v.Steps) != len(order) {
		t.Fatalf("%d steps, want %d", len(v.Steps), len(order))
	}
	stopped := false
	for i, s := range v.Steps {
		if s.Boundary != order[i] {
			t.Errorf("step %d is %s, want %s", i, s.Boundary, order[i])
		}
		if stopped != (s.State == explain.NotReached) {
			t.Errorf("step %s is %q after the first that is not passed: %v", s.Boundary, s.State, stopped)
		}
		stopped = stopped || s.State == explain.Broken || s.State == explain.Waiting || s.State == explain.Unused
	}
}

func ownerOf(v explain.Verdict) string {
	if v.Owner == nil {
		return ""
	}
	return v.Owner.String()
}
