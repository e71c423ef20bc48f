package lag

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func at(uid types.UID, version string) *v1alpha1.NVMeDevice {
	return &v1alpha1.NVMeDevice{ObjectMeta: metav1.ObjectMeta{UID: uid, ResourceVersion: version}}
}

func TestTracker(t *testing.T) {
	var tracker Tracker
	if tracker.Lags(at("a", "1")) {
		t.Error("an object that was never written lags")
	}
	tracker.Replaced(at("a", "2"), "1")
	if !tracker.Lags(at("a", "1")) {
		t.Error("the replaced version does not lag")
	}
	if tracker.Lags(at("b", "1")) {
		t.Error("another object with the same version lags")
	}
	if tracker.Lags(at("a", "2")) || len(tracker.replaced) != 0 {
		t.Error("the written version lags, or is remembered for ever")
	}
	tracker.Replaced(at("a", "2"), "2")
	if tracker.Lags(at("a", "2")) {
		t.Error("a write that changed nothing makes its object lag for ever")
	}
}
