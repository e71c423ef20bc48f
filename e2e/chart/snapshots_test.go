package chart

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestSnapshotsAreOptional: the sidecar comes when it is asked for, with no more
// privileges than others have, and the classes where the cluster has that kind.
func TestSnapshotsAreOptional(t *testing.T) {
	const class = "VolumeSnapshotClass"
	asked := []string{"--set", "snapshots.enabled=true", "--set", "snapshots.classes[0].name=a,snapshots.classes[0].default=true,snapshots.classes[0].deletionPolicy=Retain"}
	for name, c := range map[string]struct {
		values           []string
		sidecar, classes int
	}{
		"defaults":               {nil, 0, 0},
		"not asked for":          {[]string{"--api-versions", "snapshot.storage.k8s.io/v1"}, 0, 0},
		"a cluster without CRDs": {asked, 1, 0},
		"a cluster with CRDs":    {append(slices.Clone(asked), "--api-versions", "snapshot.storage.k8s.io/v1"), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := render(t, c.values...)
			found := 0
			for _, w := range workloads(t, all) {
				for _, container := range w.pod.Containers {
					if container.Name != "csi-snapshotter" {
						continue
					}
					found++
					if p := privilegesOf(w, container); p.user != "65532" || p.extra != restricted || p.host != "none" || p.folders != "none" {
						t.Errorf("it may do more than other sidecars: %+v", p)
					}
					if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "socket" }) {
						t.Error("it does not have the driver's socket")
					}
				}
			}
			classes := slices.DeleteFunc(slices.Clone(all), func(u *unstructured.Unstructured) bool { return u.GetKind() != class })
			if found != c.sidecar || len(classes) != c.classes {
				t.Fatalf("%d sidecars and %d classes, want %d and %d", found, len(classes), c.sidecar, c.classes)
			}
			for _, u := range classes {
				driver, _, _ := unstructured.NestedString(u.Object, "driver")
				policy, _, _ := unstructured.NestedString(u.Object, "deletionPolicy")
				if u.GetName() != "a" || driver != "storage.distort.io" || policy != "Retain" || u.GetAnnotations()["snapshot.storage.kubernetes.io/is-default-class"] != "true" {
					t.Errorf("class = %v", u.Object)
				}
			}
		})
	}
}
