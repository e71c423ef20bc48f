package volumes

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/e2e/internal/driver"
	"github.com/distort-io/distort/e2e/internal/flow"
	"github.com/distort-io/distort/e2e/internal/install"
	"github.com/distort-io/distort/e2e/internal/lab"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/prepare"
	"github.com/distort-io/distort/e2e/internal/suite"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// The scheduler does not place a pod on a node that has as many volumes as the chart
// says, and does when one of them has gone.
func maxVolumes(t *testing.T, l *lab.Lab, f *flow.Flow) {
	node, made := layout.Consumers()[0], suite.Prepared(t, "volumes")
	takes := func(most int32) {
		t.Helper()
		suite.Must(t, flow.Eventually(t.Context(), fmt.Sprintf("%s takes %d volumes", node, most), time.Minute, func(ctx context.Context) (string, error) {
			n := &storagev1.CSINode{}
			if err := f.Client().Get(ctx, client.ObjectKey{Name: node}, n); err != nil {
				return "", err
			}
			for _, d := range n.Spec.Drivers {
				if d.Name == v1alpha1.DriverName && d.Allocatable != nil && d.Allocatable.Count != nil && *d.Allocatable.Count == most {
					return "", nil
				}
			}
			return fmt.Sprintf("CSINode has %v", n.Spec.Drivers), nil
		}))
	}
	suite.Upgrade(t, l, made, install.Chart{Values: []string{"csiNode.maxVolumes=1"}})
	takes(1)
	names := []string{"limit-1", "limit-2"}
	for _, name := range names {
		provision(t, f, map[string]string{"transport": "tcp"}, flow.Claim{Name: name, Size: "64Mi"})
	}
	start(t, f, flow.Pod{Name: names[0], Claim: names[0], Node: node})
	suite.Must(t, f.CreatePod(t.Context(), flow.Pod{Name: names[1], Image: prepare.WorkloadImage, Claim: names[1], Node: node}))
	_, err := f.WaitEvent(t.Context(), "Pod", names[1], "FailedScheduling", "max volume count")
	suite.Must(t, err)
	remove(t, f, names[0], names[0])
	suite.Must(t, f.WaitRunning(t.Context(), names[1], node, 3*time.Minute))
	remove(t, f, names[1], names[1])
	suite.Upgrade(t, l, made, install.Chart{})
	takes(128)
}

// A storage node that answers nothing, and breaks no connection, holds up the pod that
// writes to it, and no call of the driver.
func unanswered(t *testing.T, l *lab.Lab, f *flow.Flow) {
	const name, storage, soon = "unanswered", "storage", 10 * time.Second
	node := layout.Consumers()[0]
	host := suite.Guest(t, l, node)
	bound := provision(t, f, map[string]string{"transport": "tcp", "csi.storage.k8s.io/fstype": "ext4"}, flow.Claim{Name: name, Size: "64Mi"})
	start(t, f, flow.Pod{Name: name, Claim: name, Node: node})
	health := func() string {
		t.Helper()
		since := time.Now()
		found, err := driver.Health(t.Context(), host, node, bound.Handle)
		suite.Must(t, err)
		if took := time.Since(since); took > soon {
			t.Errorf("the driver answered after %s, want at most %s", took, soon)
		}
		if len(found) == 0 {
			return ""
		}
		return fmt.Sprint(found)
	}
	if said := health(); said != "" {
		t.Fatalf("before anything is wrong: %s", said)
	}
	suite.Must(t, l.Freeze(storage))
	t.Cleanup(func() { _ = l.Thaw(storage) })
	written := make(chan error, 1)
	go func() {
		_, err := f.WriteFile(t.Context(), name, flow.DataDir+"/file", 1)
		written <- err
	}()
	since := time.Now()
	suite.Must(t, flow.Eventually(t.Context(), "the driver says what is wrong", time.Minute, func(context.Context) (string, error) {
		said := health()
		if said == "" {
			return "it finds nothing", nil
		}
		t.Logf("after %s: %s", time.Since(since).Round(time.Second), said)
		return "", nil
	}))
	select {
	case err := <-written:
		t.Errorf("the write has ended while nobody answered: %v", err)
	default:
	}
	suite.Must(t, l.Thaw(storage))
	suite.Must(t, <-written)
	suite.Must(t, f.WaitNode(t.Context(), storage, true, 2*time.Minute))
	suite.Must(t, flow.Eventually(t.Context(), "the volume is well", time.Minute, func(context.Context) (string, error) { return health(), nil }))
	if pod := (&corev1.Pod{}); f.Client().Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod) != nil || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("pod %s is %s", name, pod.Status.Phase)
	}
	remove(t, f, name, name)
}
