package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const nodePolicy = "distort-csi-node-attachments"

// set is a JSON patch of one path, as modules/csi/internal/formatrecord writes it.
func set(path string, value any) client.Patch {
	data, err := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": value}})
	if err != nil {
		panic(err)
	}
	return client.RawPatch(types.JSONPatchType, data)
}

// attached is an attachment of host that an agent has admitted.
func attached(t *testing.T, host string) *v1alpha1.NVMeVolumeAttachment {
	t.Helper()
	a := made(t, attachmentOf("node-a", host, "node-policy-"+host))
	a.Status = v1alpha1.NVMeVolumeAttachmentStatus{
		ObservedAttachmentID: a.Spec.AttachmentID,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionAccessReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonGranted, LastTransitionTime: metav1.Now(),
		}},
	}
	if err := here.admin.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestNodeWritesItsFormatRecord: what modules/csi writes on a node goes through on
// the attachments of that node, and on no other.
func TestNodeWritesItsFormatRecord(t *testing.T) {
	installed(t)
	record := set("/status/filesystem", v1alpha1.FilesystemStatus{Type: v1alpha1.Ext4, UUID: uid, FormatStartedAt: &metav1.Time{Time: metav1.Now().Time}})
	mine, theirs := attached(t, "node-c"), attached(t, "node-d")
	c := on(t, "csi-node", "node-c")
	for what, write := range map[string]func(context.Context) error{
		"of another node": func(ctx context.Context) error {
			return c.Status().Patch(ctx, theirs.DeepCopy(), record, client.DryRunAll)
		},
		"without a node": func(ctx context.Context) error {
			return on(t, "csi-node", "").Status().Patch(ctx, mine.DeepCopy(), record, client.DryRunAll)
		},
		// The agent of the target is another node than the host.
		"of the target": func(ctx context.Context) error {
			return on(t, "csi-node", "node-a").Status().Patch(ctx, mine.DeepCopy(), record, client.DryRunAll)
		},
	} {
		t.Run(what, func(t *testing.T) { denied(t, nodePolicy, write) })
	}
	own(t, "format record", c.Status().Patch(t.Context(), mine, record))
	if mine.Status.Filesystem == nil || mine.Status.ObservedAttachmentID == "" {
		t.Errorf("status after the format record: %+v", mine.Status)
	}
}

// TestNodeCannotSayThatItIsFenced: a node writes no field of the status but its
// format record. Evidence of a fence that the agent did not make would let the next
// host in beside this one.
func TestNodeCannotSayThatItIsFenced(t *testing.T) {
	installed(t)
	values := map[string]any{
		"revocation": v1alpha1.RevocationEvidence{Observed: "gone", Source: "configfs", ObservedAt: metav1.Now(), Agent: "node-a"},
		"conditions": []metav1.Condition{{
			Type: v1alpha1.ConditionAccessReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRevoked, LastTransitionTime: metav1.Now(),
		}},
		"observedAttachmentID": "0f9e8d7c-6b5a-4c3d-8e2f-1a0b9c8d7e6f",
	}
	mine := attached(t, "node-c")
	c := on(t, "csi-node", "node-c")
	status := reflect.TypeFor[v1alpha1.NVMeVolumeAttachmentStatus]()
	for i := range status.NumField() {
		name, _, _ := strings.Cut(status.Field(i).Tag.Get("json"), ",")
		if name == "filesystem" {
			continue
		}
		value, known := values[name]
		if !known {
			t.Errorf("status.%s is new: is it the node's? If not, policy %s and this test must have it", name, nodePolicy)
			continue
		}
		denied(t, nodePolicy, func(ctx context.Context) error {
			return c.Status().Patch(ctx, mine.DeepCopy(), set("/status/"+name, value), client.DryRunAll)
		})
	}
	denied(t, nodePolicy, func(ctx context.Context) error {
		return c.Status().Patch(ctx, mine.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":null}}`)), client.DryRunAll)
	})
}

// TestNodeReads: a node reads the attachment that it stages and its Node, and
// changes neither.
func TestNodeReads(t *testing.T) {
	installed(t)
	mine := attached(t, "node-c")
	made(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-c"}})
	c := on(t, "csi-node", "node-c")
	own(t, "read its attachment", c.Get(t.Context(), client.ObjectKeyFromObject(mine), &v1alpha1.NVMeVolumeAttachment{}))
	own(t, "read its Node", c.Get(t.Context(), client.ObjectKey{Name: "node-c"}, &corev1.Node{}))
	for what, err := range map[string]error{
		"label its Node":             c.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-c"}}, set("/metadata/labels", map[string]string{"a": "b"})),
		"drop the agent's finalizer": c.Patch(t.Context(), mine.DeepCopy(), set("/metadata/finalizers", []string{})),
		"delete its attachment":      c.Delete(t.Context(), mine.DeepCopy()),
		"read secrets":               c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(namespace)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("a node may %s: %v", what, fmt.Errorf("want Forbidden, got %w", err))
		}
	}
}
