package metrics

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const uid = "11111111-1111-4111-8111-111111111111"

// Known faults CV1 and CV2: the volume stays when its claim goes while it is made, or
// when the provisioner ends before it makes the PersistentVolume.
func TestVolumesThatNobodySpeaksOfAreCounted(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	partition := func(change func(*v1alpha1.NVMePartition)) client.Object {
		p := &v1alpha1.NVMePartition{ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.DefaultNamespace, Name: "pvc-1", UID: types.UID(uid), CreationTimestamp: metav1.NewTime(now.Add(-unclaimedAfter)),
		}}
		if change != nil {
			change(p)
		}
		return p
	}
	persistent := func(driver, handle string) client.Object {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}},
		}}
	}
	volume := func(from v1alpha1.Provenance) client.Object {
		return &v1alpha1.Volume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-2", UID: "2", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
			Spec:       v1alpha1.VolumeSpec{Provenance: from},
		}
	}
	const handle = "partition:" + v1alpha1.DefaultNamespace + ":pvc-1:" + uid
	for name, c := range map[string]struct {
		objects []client.Object
		want    int
	}{
		"nothing":                 {nil, 0},
		"nobody speaks of it":     {[]client.Object{partition(nil)}, 1},
		"its PersistentVolume":    {[]client.Object{partition(nil), persistent(v1alpha1.DriverName, handle)}, 0},
		"that of an earlier life": {[]client.Object{partition(nil), persistent(v1alpha1.DriverName, handle[:len(handle)-1]+"2")}, 1},
		"that of another driver":  {[]client.Object{partition(nil), persistent("example.org", handle)}, 1},
		"a handle that is none":   {[]client.Object{partition(nil), persistent(v1alpha1.DriverName, "pvc-1")}, 1},
		"a moment ago":            {[]client.Object{partition(func(p *v1alpha1.NVMePartition) { p.CreationTimestamp = metav1.NewTime(now) })}, 0},
		"somebody deletes it": {[]client.Object{partition(func(p *v1alpha1.NVMePartition) {
			at := metav1.NewTime(now)
			p.DeletionTimestamp, p.Finalizers = &at, []string{v1alpha1.AccessFinalizer}
		})}, 0},
		"a zvol":                            {[]client.Object{volume(v1alpha1.ProvenanceDynamic)}, 1},
		"one that an administrator adopted": {[]client.Object{volume(v1alpha1.ProvenanceImported)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			cached := make([]client.Object, 0, len(c.objects))
			for _, o := range c.objects {
				kept, err := KeepHandle(o)
				if err != nil {
					t.Fatal(err)
				}
				cached = append(cached, kept.(client.Object))
			}
			cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cached...).Build()
			if got, err := countUnclaimed(t.Context(), cache, now); err != nil || got != c.want {
				t.Errorf("%d (%v), want %d", got, err, c.want)
			}
		})
	}
}
