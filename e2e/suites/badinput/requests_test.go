// Package badinput gives DISTORT what users and administrators get wrong, in the
// lab: each is refused with a message that names the value and the rule, and
// nothing is lost or left.
package badinput

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const namespace = "e2e-badinput"

func TestRequestsAreRefused(t *testing.T) {
	f := suite.Flow(t, suite.Open(t), namespace)
	ctx := t.Context()
	cases := []struct {
		name       string
		parameters map[string]string
		claim      flow.Claim
		want       []string
	}{
		{"misspelt", map[string]string{"transprot": "tcp"}, flow.Claim{}, []string{"InvalidArgument", "transprot", `did you mean "transport"`}},
		{"transport", map[string]string{"transport": "pigeon"}, flow.Claim{}, []string{"InvalidArgument", "transport", "pigeon", "rdma"}},
		{"filesystem", map[string]string{"csi.storage.k8s.io/fstype": "ntfs"}, flow.Claim{}, []string{"InvalidArgument", "ntfs", "ext4"}},
		{"mkfs-options", map[string]string{"mkfs-options": "-b 4096; reboot"}, flow.Claim{}, []string{"InvalidArgument", "mkfs-options"}},
		{"multi-writer", nil, flow.Claim{AccessMode: corev1.ReadWriteMany}, []string{"InvalidArgument", "block"}},
		{"no-such-room", nil, flow.Claim{Size: "64Gi"}, []string{"ResourceExhausted", "64Gi"}},
		{"overflow", nil, flow.Claim{Size: "9223372036854775807"}, []string{"OutOfRange"}},
	}
	for i := range cases {
		c := &cases[i]
		c.claim.Name, c.claim.Class = c.name, "e2e-bad-"+c.name
		if c.claim.Size == "" {
			c.claim.Size = "64Mi"
		}
		suite.Must(t, f.CreateClass(ctx, flow.Class{Name: c.claim.Class, Parameters: c.parameters}))
		suite.Must(t, f.CreateClaim(ctx, c.claim))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			message, err := f.WaitEvent(t.Context(), "PersistentVolumeClaim", c.name, "ProvisioningFailed", c.want...)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(message)
		})
	}
	for _, c := range cases {
		suite.Must(t, f.DeleteClaim(ctx, c.name))
		suite.Must(t, f.DeleteClass(ctx, c.claim.Class))
	}
	partitions := &v1alpha1.NVMePartitionList{}
	suite.Must(t, f.Client().List(ctx, partitions, client.InNamespace(v1alpha1.DefaultNamespace)))
	for _, partition := range partitions.Items {
		t.Errorf("NVMePartition %s is left", partition.Name)
	}
}
