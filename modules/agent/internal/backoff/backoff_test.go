package backoff_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/distort-io/distort/modules/agent/internal/backoff"
)

func TestWaitsGrowToHalfAMinuteAndStartOver(t *testing.T) {
	limiter := backoff.New()
	object := reconcile.Request{NamespacedName: types.NamespacedName{Name: "a"}}
	begin := limiter.When(object)
	var last time.Duration
	for range 40 {
		next := limiter.When(object)
		if next < last {
			t.Fatalf("wait %s after %s", next, last)
		}
		last = next
	}
	if begin > time.Second || last != 30*time.Second {
		t.Errorf("waits from %s to %s, want from well below a second to 30 s", begin, last)
	}
	limiter.Forget(object)
	if again := limiter.When(object); again != begin {
		t.Errorf("wait after a success = %s, want %s", again, begin)
	}
}
