package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/volumelock"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
)

// Errors of Exporter, besides those of package export.
var (
	// ErrNoPortal: the node has no usable address for the transport now.
	ErrNoPortal = errors.New("node has no portal")
	// ErrSliceInUse: the node itself uses the slice.
	ErrSliceInUse = errors.New("slice is in use on this node")
	// ErrGone: the volume is being deleted, or its object is gone. Its export
	// must not be made again.
	ErrGone = errors.New("volume is being deleted")
)

// Portals answers where targets of this node can listen now.
type Portals interface {
	// On returns the node's addresses for the transport, in a stable order.
	On(ctx context.Context, t v1alpha1.Transport) ([]v1alpha1.Portal, error)
}

// Exporter changes the exports of this node. It is safe for concurrent use.
type Exporter struct {
	cache    client.Reader
	backends export.Backends
	portals  Portals
	drives   Drives
	locks    volumelock.Locks

	// remake makes what a backend has forgotten (Restore.again); nil makes nothing.
	remake func(ctx context.Context, backend export.Backend) error

	mu sync.Mutex
	// good is what the last Ensure that succeeded was given; the periodic check
	// compares with it.
	good map[types.UID]export.Volume
}

// NewExporter returns an Exporter. The cache has the index of IndexAttachments.
func NewExporter(cache client.Reader, backends export.Backends, portals Portals, drives Drives) *Exporter {
	return &Exporter{cache: cache, backends: backends, portals: portals, drives: drives, good: map[types.UID]export.Volume{}}
}

// Outcome is what Ensure did and what is exported now.
type Outcome struct {
	export.Result
	export.Volume
	// Readmitted: since the last Ensure the attachments admit other hosts, and nothing
	// else is asked for. What changed is their doing, whichever reconciler came first.
	Readmitted bool
}

// Repaired tells whether an export that existed was not as it was left.
func (o Outcome) Repaired() bool { return !o.Readmitted && o.Result.Repaired() }

// Ensure makes the export of the volume exactly as its object, its live
// attachments and this node's addresses say. All of these are read under the
// volume's lock, from the same cache that told the caller: what a caller has seen
// deleted is deleted here too.
func (e *Exporter) Ensure(ctx context.Context, s v1alpha1.Slice, devicePath string) (Outcome, error) {
	if err := e.remember(ctx, s.GetTargetBackend()); err != nil {
		return Outcome{}, err
	}
	backend, unlock, err := e.take(ctx, s)
	if err != nil {
		return Outcome{}, err
	}
	defer unlock()
	v, err := e.desired(ctx, s, devicePath, e.portals)
	if err != nil {
		return Outcome{}, err
	}
	if err := e.unused(devicePath); err != nil {
		return Outcome{}, err
	}
	last, known := e.last(v.UID)
	result, err := backend.Ensure(ctx, v)
	if err != nil {
		e.set(v.UID, nil)
		return Outcome{}, err
	}
	e.set(v.UID, &v)
	return Outcome{Result: result, Volume: v, Readmitted: known && onlyHosts(last, v)}, nil
}

// onlyHosts tells whether the volumes differ in their hosts and in nothing else.
func onlyHosts(a, b export.Volume) bool {
	same := slices.Equal(a.Hosts, b.Hosts)
	a.Hosts, b.Hosts = nil, nil
	return !same && reflect.DeepEqual(a, b)
}

// remember makes sure that the backend has not forgotten all other exports: the first
// one that is made again must not listen before the others are there. No lock of a
// volume may be held.
func (e *Exporter) remember(ctx context.Context, name v1alpha1.TargetBackend) error {
	backend, err := e.backends.Get(name)
	if err != nil || e.remake == nil {
		return err
	}
	fresh, err := backend.Fresh(ctx)
	if err != nil || !fresh {
		return err
	}
	return e.remake(ctx, backend)
}

// take returns the backend of the volume and its lock.
func (e *Exporter) take(ctx context.Context, s v1alpha1.Slice) (backend export.Backend, unlock func(), err error) {
	if backend, err = e.backends.Get(s.GetTargetBackend()); err != nil {
		return nil, nil, err
	}
	unlock, err = e.locks.Lock(ctx, s.GetUID())
	return backend, unlock, err
}

// unused makes sure that the node itself does not use the slice: nvmet would
// export it all the same (design.md §6).
func (e *Exporter) unused(devicePath string) error {
	if _, bdev := spdk.BdevOf(devicePath); bdev {
		return nil // nobody on the node can open it, and SPDK gives it to one only
	}
	uses, err := e.drives.Uses(filepath.Base(devicePath))
	if err != nil {
		return fmt.Errorf("look for other users of %s: %w", devicePath, err)
	}
	if len(uses) > 0 {
		return fmt.Errorf("%w: %s", ErrSliceInUse, uses[0])
	}
	return nil
}

// desired reads what the export has to be.
func (e *Exporter) desired(ctx context.Context, s v1alpha1.Slice, devicePath string, at Portals) (export.Volume, error) {
	now := v1alpha1.NewSlice(s.GetReference().Kind)
	switch err := e.cache.Get(ctx, client.ObjectKeyFromObject(s), now); {
	case apierrors.IsNotFound(err):
		return export.Volume{}, fmt.Errorf("%w: %s", ErrGone, Name(s))
	case err != nil:
		return export.Volume{}, fmt.Errorf("read %s: %w", Name(s), err)
	case now.GetUID() != s.GetUID() || !now.GetDeletionTimestamp().IsZero():
		return export.Volume{}, fmt.Errorf("%w: %s", ErrGone, Name(s))
	}
	attachments, err := Attachments(ctx, e.cache, s.GetUID())
	if err != nil {
		return export.Volume{}, err
	}
	portals, err := at.On(ctx, s.GetTransport())
	if err != nil {
		return export.Volume{}, err
	}
	if len(portals) == 0 {
		// An export that exists keeps its listeners: they serve whoever still reaches
		// them, and the address may come back.
		return export.Volume{}, fmt.Errorf("%w for transport %s", ErrNoPortal, s.GetTransport())
	}
	v := export.Volume{UID: s.GetUID(), DevicePath: devicePath, Portals: portals, Hosts: Hosts(s, attachments)}
	if len(v.Hosts) > 0 {
		v.Former = e.former(now, portals)
	}
	return v, nil
}

// former are the addresses that the export had and that the node does not have
// any more. A port that is down for a moment must not cost the sessions on it, so
// they stay as long as there are hosts.
func (e *Exporter) former(s v1alpha1.Slice, wanted []v1alpha1.Portal) []v1alpha1.Portal {
	var out []v1alpha1.Portal
	last, _ := e.last(s.GetUID())
	for _, old := range slices.Concat(s.GetPortals(), last.Portals, last.Former) {
		if !slices.Contains(wanted, old) && !slices.Contains(out, old) {
			out = append(out, old)
		}
	}
	return out
}

// Revalidate shows the present size of the volume's slice to its hosts.
func (e *Exporter) Revalidate(ctx context.Context, s v1alpha1.Slice) error {
	backend, unlock, err := e.take(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	return backend.Revalidate(ctx, s.GetUID())
}

// Remove takes the export of the volume away.
func (e *Exporter) Remove(ctx context.Context, s v1alpha1.Slice) error {
	backend, unlock, err := e.take(ctx, s)
	if err != nil {
		return err
	}
	defer unlock()
	e.set(s.GetUID(), nil)
	return backend.Remove(ctx, s.GetUID())
}

// Revoke fences the host from the volume. The backend is that of the volume's
// object; it is empty when there is no such object any more, and then each
// backend is asked.
func (e *Exporter) Revoke(ctx context.Context, volume types.UID, name v1alpha1.TargetBackend, hostNQN string) ([]export.Evidence, error) {
	backends := e.backends
	if name != "" {
		backend, err := e.backends.Get(name)
		if err != nil {
			return nil, err
		}
		backends = export.NewBackends(backend)
	}
	unlock, err := e.locks.Lock(ctx, volume)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var out []export.Evidence
	for _, backend := range backends {
		evidence, err := backend.Revoke(ctx, volume, hostNQN)
		if err != nil {
			return nil, err
		}
		out = append(out, evidence)
	}
	return out, nil
}

func (e *Exporter) set(volume types.UID, v *export.Volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v == nil {
		delete(e.good, volume)
		return
	}
	e.good[volume] = *v
}

func (e *Exporter) last(volume types.UID) (export.Volume, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, ok := e.good[volume]
	return v, ok
}
