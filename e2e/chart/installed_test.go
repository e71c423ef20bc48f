package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// patience is how long the API server may take to act on a new object.
const patience = time.Minute

// upgraded installs the previous chart, makes a volume in use, and upgrades to the
// chart of this checkout, once for all tests.
var upgraded = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := helm(ctx, "install", release, previousChart, "--create-namespace"); err != nil {
		return fmt.Errorf("install the previous chart: %w", err)
	}
	err := await(ctx, "the kinds are served", func(ctx context.Context) error { return makeVolume(ctx) })
	if err != nil {
		return err
	}
	if err := install(ctx); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	return nil
})

// installed makes sure that the chart of this checkout is in the cluster and that
// its policies are in force.
func installed(t *testing.T) {
	t.Helper()
	if err := upgraded(); err != nil {
		t.Fatal(err)
	}
}

// install installs or upgrades to the chart of this checkout.
func install(ctx context.Context) error {
	if _, err := helm(ctx, "upgrade", "--install", release, chartDir()); err != nil {
		return err
	}
	// The API server reads policies by watch; the last one to come counts.
	return await(ctx, "the policies are in force", func(ctx context.Context) error {
		as, err := impersonate("agent", "")
		if err != nil {
			return err
		}
		for policy, o := range probes {
			if err := as.Create(ctx, o.DeepCopyObject().(client.Object), client.DryRunAll); !deniedBy(err, policy) {
				return fmt.Errorf("policy %s does not deny yet: %w", policy, err)
			}
		}
		return nil
	})
}

// await asks until the answer is nil; its error is the last answer.
func await(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, errors.Join(err, last))
	}
	return nil
}

// deniedBy tells whether that policy refused a request.
func deniedBy(err error, policy string) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+policy+"'")
}

// The volume that is in use while the chart is upgraded.
var (
	usedClaim      = client.ObjectKey{Namespace: namespace, Name: "claim"}
	usedDevice     = client.ObjectKey{Name: "node-u-drive"}
	usedVolume     = client.ObjectKey{Namespace: namespace, Name: "pvc-used"}
	usedAttachment = client.ObjectKey{Namespace: namespace, Name: "attachment-used"}
)

func makeVolume(ctx context.Context) error {
	claim := &v1alpha1.NVMeDeviceClaim{ObjectMeta: meta(usedClaim), Spec: v1alpha1.NVMeDeviceClaimSpec{SerialNumber: "USED"}}
	claim.Finalizers = []string{v1alpha1.ClaimFinalizer}
	p := partitionOn("node-u", usedVolume.Name)
	p.Finalizers = []string{v1alpha1.SliceFinalizer}
	a := attachmentOf("node-u", "node-c", usedAttachment.Name)
	a.Finalizers = []string{v1alpha1.AccessFinalizer}
	d := device("node-u", usedDevice.Name)
	for _, o := range []client.Object{claim, d, p, a} {
		if err := here.admin.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	p.Status.State, p.Status.AllocatedCapacity, p.Status.NQN = v1alpha1.PartitionExported, p.Spec.Size, "nqn.2026-02.io.distort:volume-vol-used"
	return here.admin.Status().Patch(ctx, p, statusOf(p))
}

// statusOf is a patch that sets the status as it is in the object.
func statusOf(p *v1alpha1.NVMePartition) client.Patch {
	data, err := json.Marshal(map[string]any{"status": p.Status})
	if err != nil {
		panic(err)
	}
	return client.RawPatch("application/merge-patch+json", data)
}

// TestUpgradeKeepsVolumes: after the upgrade from the previous chart all objects
// are there, in the same life, with their status and finalizers.
func TestUpgradeKeepsVolumes(t *testing.T) {
	installed(t)
	p := &v1alpha1.NVMePartition{}
	if err := here.admin.Get(t.Context(), usedVolume, p); err != nil {
		t.Fatal(err)
	}
	if p.Status.State != v1alpha1.PartitionExported || p.Status.NQN != "nqn.2026-02.io.distort:volume-vol-used" || len(p.Finalizers) != 1 || p.Generation != 1 {
		t.Errorf("the volume is now %+v", p)
	}
	for key, o := range map[client.ObjectKey]client.Object{
		usedClaim: &v1alpha1.NVMeDeviceClaim{}, usedDevice: &v1alpha1.NVMeDevice{}, usedAttachment: &v1alpha1.NVMeVolumeAttachment{},
	} {
		if err := here.admin.Get(t.Context(), key, o); err != nil {
			t.Error(err)
		} else if o.GetDeletionTimestamp() != nil || o.GetGeneration() != 1 {
			t.Errorf("the upgrade changed %T %s: %+v", o, key, o)
		}
	}
	history, err := helm(t.Context(), "history", release, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var revisions []struct{ Status string }
	if err := json.Unmarshal(history, &revisions); err != nil {
		t.Fatal(err)
	}
	if len(revisions) < 2 || revisions[len(revisions)-1].Status != "deployed" {
		t.Errorf("history of the release: %s", history)
	}
}

// namesOf lists the names in a list.
func namesOf(list client.ObjectList) []string {
	var names []string
	_ = apimeta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(client.Object).GetName())
		return nil
	})
	return names
}

// meta makes the metadata of a new object.
func meta(key client.ObjectKey) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}
