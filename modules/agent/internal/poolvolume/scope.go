package poolvolume

import (
	"errors"

	"github.com/distort-io/distort/modules/agent/internal/volume"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// scope is what one pass found out about one volume. Phases write to it; the
// conditions are computed from it (status.go).
type scope struct {
	// volume is as it was read from the cache; it is not changed.
	volume *v1alpha1.Volume
	// pool is set once it was found to be this node's.
	pool zfs.Pool
	// zvol is set once it was found or made, device once the kernel showed it.
	zvol   *zfs.Volume
	device string
	// accounted is the generation of the first sample that contains the zvol; 0 when
	// that is not known.
	accounted int64
	// filesystem is the format record of what the zvol was made of; nil when there is
	// none.
	filesystem *v1alpha1.FilesystemStatus
	// exported is set once the export was ensured.
	exported *volume.Outcome
	// growth is set once it was tried to make the zvol larger.
	growth *growth
	// modification is set once it was tried to change the zvol's properties.
	modification *modification
	// failure is why the pass ended early, nil when it did not.
	failure *failure
}

// growth is the outcome of an attempt to make the zvol larger, and to have the
// target serve it; nil in it is success.
type growth struct{ failure *failure }

// modification is the outcome of an attempt to change the zvol's properties; nil in it
// is success.
type modification struct{ failure *failure }

// place says where the zvol is, for people.
func (s *scope) place() string { return "pool " + s.pool.Name }

// trouble is what keeps the pass from being a success, nil when it is one.
func (s *scope) trouble() *failure {
	switch {
	case s.failure != nil:
		return s.failure
	case s.growth != nil && s.growth.failure != nil:
		return s.growth.failure
	case s.modification != nil:
		return s.modification.failure
	}
	return nil
}

// recorded tells whether the zvol was made in an earlier life of the agent.
func (s *scope) recorded() bool { return s.volume.Status.DatasetGUID != "" }

// remedy is what can help a phase that failed; see package partition.
type remedy int

const (
	tryAgain remedy = iota
	waitForEvent
	waitForHost
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
