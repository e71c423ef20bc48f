package chart

import (
	"context"
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// TestUninstall: a release with volumes or claims stays whole; without them it goes
// and leaves the CRDs, which the next installation takes over (known fault HD1).
func TestUninstall(t *testing.T) {
	installed(t)
	claim := func() client.Object {
		return &v1alpha1.NVMeDeviceClaim{ObjectMeta: meta(usedClaim), Spec: v1alpha1.NVMeDeviceClaimSpec{SerialNumber: "USED"}}
	}
	remove(t, claim())
	refused(t, "NVMePartition "+usedVolume.String())
	remove(t, &v1alpha1.NVMeVolumeAttachment{ObjectMeta: meta(usedAttachment)})
	remove(t, &v1alpha1.NVMePartition{ObjectMeta: meta(usedVolume)})
	zvol := made(t, volumeOn("", "uninstall"))
	refused(t, "Volume "+zvol.GetName())
	remove(t, zvol)
	if err := here.admin.Create(t.Context(), claim()); err != nil {
		t.Fatal(err)
	}
	refused(t, "NVMeDeviceClaim "+usedClaim.String())
	remove(t, claim())

	// The API server hears of the last deletion by watch.
	if err := await(t.Context(), "helm uninstall is let through", func(ctx context.Context) error {
		_, err := helm(ctx, "uninstall", release)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, list := range []client.ObjectList{
		&corev1.ServiceAccountList{}, &corev1.ConfigMapList{}, &admissionregistrationv1.ValidatingAdmissionPolicyList{}, &admissionregistrationv1.ValidatingAdmissionPolicyBindingList{},
	} {
		if names := ofRelease(t, list); len(names) > 0 {
			t.Errorf("left of %T: %v", list, names)
		}
	}
	if err := here.admin.Get(t.Context(), usedDevice, &v1alpha1.NVMeDevice{}); err != nil {
		t.Errorf("uninstalling took objects of our kinds away: %v", err)
	}
	if names := ofRelease(t, &apiextensionsv1.CustomResourceDefinitionList{}); len(names) != 0 {
		t.Errorf("CRDs carry labels of the chart: %v", names)
	}
	if err := install(t.Context()); err != nil {
		t.Errorf("install again over the CRDs that were kept: %v", err)
	}
}

// TestForcedUninstall: whoever wants it can remove the programs below volumes, and
// what they left is taken over by the next installation.
func TestForcedUninstall(t *testing.T) {
	installed(t)
	p := made(t, partitionOn("node-f", "forced"))
	if _, err := helm(t.Context(), "upgrade", release, chartDir(), "--set", "uninstallGuard=false"); err != nil {
		t.Fatal(err)
	}
	// The API server hears of the policies' end by watch.
	if err := await(t.Context(), "nothing is guarded any more", func(ctx context.Context) error {
		guard := &corev1.ConfigMap{ObjectMeta: meta(client.ObjectKey{Namespace: namespace, Name: "distort-uninstall-guard"})}
		return here.admin.Delete(ctx, guard, client.DryRunAll)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t.Context(), "uninstall", release); err != nil {
		t.Fatal(err)
	}
	if err := install(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := p.GetUID()
	if err := here.admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.GetUID() != before {
		t.Errorf("the volume did not survive: %v", err)
	}
}

// refused waits until `helm uninstall` is refused because of that object, and
// fails if anything of the release is gone then.
func refused(t *testing.T, because string) {
	t.Helper()
	if err := await(t.Context(), "helm uninstall is refused", func(ctx context.Context) error {
		_, err := helm(ctx, "uninstall", release)
		switch {
		case err == nil:
			t.Fatalf("helm uninstall went through although there is %s", because)
		case !strings.Contains(err.Error(), because+" exists"):
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if accounts := ofRelease(t, &corev1.ServiceAccountList{}); len(accounts) != len(components) {
		t.Fatalf("a refused helm uninstall left only these service accounts: %v", accounts)
	}
	if out, err := helm(t.Context(), "status", release); err != nil || !strings.Contains(string(out), "STATUS: deployed") {
		t.Fatalf("release after a refused helm uninstall: %s, %v", out, err)
	}
}

// ofRelease names the objects of the chart.
func ofRelease(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	if err := here.admin.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/name": "distort"}); err != nil {
		t.Fatal(err)
	}
	return namesOf(list)
}

// remove deletes an object past its finalizers, which nobody serves here.
func remove(t *testing.T, o client.Object) {
	t.Helper()
	discard(t, o)
	if err := here.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
		t.Fatal(fmt.Errorf("%T %s is still there: %w", o, o.GetName(), err))
	}
}
