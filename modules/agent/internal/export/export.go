// Package export offers slices of drives over NVMe-oF. A Backend is one target
// (the kernel's nvmet, SPDK's nvmf_tgt); it knows nothing of how a slice was carved, and takes all
// identities of the export from the UID of the volume's object, so that an export
// made again is the same one to its initiators (design.md §6, "Identity never
// changes").
package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Volume is what a backend exports: complete, so that what it does not list must
// not exist.
type Volume struct {
	// UID of the object that holds the volume.
	UID types.UID
	// DevicePath is the block device of the slice.
	DevicePath string
	// Portals are the addresses to listen on.
	Portals []v1alpha1.Portal
	// Former are addresses on which the export may go on listening if it does now,
	// because hosts may be connected there. They are never listened on anew.
	Former []v1alpha1.Portal
	// Hosts are the NQNs of the hosts that are admitted, and no others.
	Hosts []string
}

// Result is what Ensure had to do.
type Result struct {
	// Created: there was no export before.
	Created bool
	// Changes are one line for each change, empty when all was right.
	Changes []string
}

// Repaired tells whether an export that existed was not as it should be.
func (r Result) Repaired() bool { return !r.Created && len(r.Changes) > 0 }

// Evidence is what proves that a host is fenced.
type Evidence struct {
	// Observed says what was read, in one line.
	Observed string
	// Source is where it was read.
	Source string
	// At is when, by the clock of this node.
	At time.Time
}

// Observation is one bulk read of all exports of a backend.
type Observation interface {
	// Differences says in what the export of the volume is not as it should be;
	// empty means that Ensure would change nothing.
	Differences(v Volume) ([]string, error)
	// Serving tells whether the volume has an export that hosts can reach.
	Serving(volume types.UID) bool
	// Strangers are the exports with a name of DISTORT's whose volume is not among
	// those given. They are reported and never touched: only the object of a volume
	// permits to remove its export.
	Strangers(volumes []types.UID) []string
	// Foreign are the devices of the exports that do not have a name of DISTORT's, by
	// name of the export. They are somebody else's.
	Foreign() map[string][]string
	// Unseen says what the target does not show; empty when it shows everything.
	Unseen() string
	// Guests describes the hosts that are connected to the volume's export although
	// the volume does not admit them; none where the target does not show who is.
	Guests(v Volume) []string
}

// Backend exports volumes. All methods may be called from many goroutines and end
// with their context.
type Backend interface {
	// Name is what NVMePartition.spec.targetBackend says for this backend.
	Name() v1alpha1.TargetBackend
	// Ensure makes the export exactly so. A host that is not listed is fenced before
	// a new one is admitted.
	Ensure(ctx context.Context, v Volume) (Result, error)
	// EnsureAll is Ensure for many volumes whose hosts are trying to reconnect: no
	// host reaches any of them before all are there, but for those that take longer
	// than each. The errors are in the order of the volumes.
	EnsureAll(ctx context.Context, each time.Duration, all []Volume) []error
	// Remove takes the export away and reads back that it is gone. No export is a
	// success. It is ErrConnected, and nothing is done, while the target shows a host
	// that is connected; not every target shows that.
	Remove(ctx context.Context, volume types.UID) error
	// Revoke fences the host: without an error, none of its writes can reach the
	// medium any more. No export is a success, with that as the evidence.
	Revoke(ctx context.Context, volume types.UID, hostNQN string) (Evidence, error)
	// Revalidate shows the present size of the slice to the hosts, which stay
	// connected. Without an error, that size is what the target serves.
	Revalidate(ctx context.Context, volume types.UID) error
	// Fresh tells whether the target was started since anything listened there, and has
	// forgotten everything: then all of it is made together (EnsureAll) before one of it
	// is made. The kernel never forgets while it runs.
	Fresh(ctx context.Context) (bool, error)
	// Observe reads all exports at once.
	Observe(ctx context.Context) (Observation, error)
}

// Errors of all backends.
var (
	// ErrUnsupported: this agent has no such backend.
	ErrUnsupported = errors.New("target backend not supported by this agent")
	// ErrInvalid: the volume can never be exported as it is; trying again is
	// useless.
	ErrInvalid = errors.New("volume cannot be exported")
	// ErrConnected: hosts are connected to the export.
	ErrConnected = errors.New("hosts are connected")
)

// Backends are the backends of one agent, by name.
type Backends map[v1alpha1.TargetBackend]Backend

// NewBackends returns the backends by their names.
func NewBackends(all ...Backend) Backends {
	out := Backends{}
	for _, b := range all {
		out[b.Name()] = b
	}
	return out
}

// Get returns the backend of that name, or ErrUnsupported with the names there
// are.
func (b Backends) Get(name v1alpha1.TargetBackend) (Backend, error) {
	if backend := b[name]; backend != nil {
		return backend, nil
	}
	var have []string
	for _, n := range slices.Sorted(maps.Keys(b)) {
		have = append(have, string(n))
	}
	return nil, fmt.Errorf("%w: %q (it has %s)", ErrUnsupported, name, strings.Join(have, ", "))
}
