package partition

import (
	"errors"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// scope is what one pass found out about one partition. Phases write to it; the
// conditions are computed from it (status.go).
type scope struct {
	// partition is as it was read from the cache; it is not changed.
	partition *v1alpha1.NVMePartition
	// carver finds and makes what the partition's backend carves.
	carver volume.Carver
	// drive is set once the claim on it was authorised.
	drive inventory.Drive
	// slice is set once it was found or carved.
	slice *carve.Volume
	// exported is set once the export was ensured.
	exported *volume.Outcome
	// growth is set once it was tried to make the slice larger.
	growth *growth
	// failure is why the pass ended early, nil when it did not.
	failure *failure
}

// growth is the outcome of an attempt to make the slice larger, and to have the
// target serve it; nil in it is success.
type growth struct{ failure *failure }

// trouble is what keeps the pass from being a success, nil when it is one.
func (s *scope) trouble() *failure {
	if s.failure == nil && s.growth != nil {
		return s.growth.failure
	}
	return s.failure
}

// recorded tells whether the slice was carved in an earlier life of the agent.
func (s *scope) recorded() bool {
	return volume.Carved(s.partition)
}

// remedy is what can help a phase that failed.
type remedy int

const (
	// tryAgain: the same pass may succeed a little later.
	tryAgain remedy = iota
	// waitForEvent: an object has to change, and its change wakes us.
	waitForEvent
	// waitForHost: something outside Kubernetes has to change, of which no event
	// tells.
	waitForHost
	// needsPerson: trying again is useless until an object changes.
	needsPerson
)

// failure is the end of a pass: the condition that is false, and why.
type failure struct {
	condition string
	reason    string
	remedy    remedy
	err       error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed returns err as the failure that it holds, or as one of the export that
// may be tried again.
func failed(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{v1alpha1.ConditionExported, v1alpha1.ReasonExportFailed, tryAgain, err}
}
