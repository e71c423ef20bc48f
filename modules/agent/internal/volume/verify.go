package volume

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/agent/internal/export"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Verification is one comparison of all exports of this node with what they
// should be.
type Verification struct {
	// Broken has what differs, by the UID of the volume.
	Broken map[types.UID][]string
	// Strangers are exports with a name of DISTORT's that belong to no volume of this
	// node, other exports of a claimed drive, and hosts that are connected to a volume
	// which does not admit them. They are never touched.
	Strangers []string
	// Unseen says what could not be looked at on this node, whatever there is.
	Unseen string
}

// Verifier compares the exports of this node in bulk: one read of each backend,
// one scan of the drives and one list of partitions for each drive, whatever the
// number of volumes (design.md §9).
type Verifier struct {
	exporter *Exporter
	locator  *Locator
}

// NewVerifier returns a Verifier of what these two made.
func NewVerifier(e *Exporter, l *Locator) *Verifier { return &Verifier{exporter: e, locator: l} }

// Verify compares the volumes of these partitions. Volumes that were not exported
// yet by this process are left to their own reconciliation.
func (v *Verifier) Verify(ctx context.Context, partitions []v1alpha1.NVMePartition) (Verification, error) {
	observed := map[v1alpha1.TargetBackend]export.Observation{}
	out := Verification{Broken: map[types.UID][]string{}}
	for name, backend := range v.exporter.backends {
		o, err := backend.Observe(ctx)
		if err != nil {
			return Verification{}, err
		}
		observed[name] = o
	}
	uids, err := v.volumes(ctx, partitions)
	if err != nil {
		return Verification{}, err
	}
	var unseen []string
	for _, o := range observed {
		foreign, err := v.foreign(ctx, o.Foreign())
		if err != nil {
			return Verification{}, err
		}
		out.Strangers = append(append(out.Strangers, o.Strangers(uids)...), foreign...)
		if text := o.Unseen(); text != "" {
			unseen = append(unseen, text)
		}
	}
	slices.Sort(unseen)
	out.Unseen = strings.Join(unseen, "; ")
	drives := driveCheck{scan: v.locator.drives.Scan(ctx), locator: v.locator, parts: map[string][]inventory.Partition{}}
	at := oncePortals{from: v.exporter.portals, read: map[v1alpha1.Transport][]v1alpha1.Portal{}}
	for i := range partitions {
		p := &partitions[i]
		last, ok := v.exporter.last(p.UID)
		o := observed[p.Spec.TargetBackend]
		if !ok || o == nil || !p.DeletionTimestamp.IsZero() {
			continue
		}
		differences, guests, err := v.differences(ctx, p, last, o, &drives, at)
		if err != nil {
			differences = []string{err.Error()}
		}
		if len(differences) > 0 {
			out.Broken[p.UID] = differences
		}
		out.Strangers = append(out.Strangers, guests...)
	}
	slices.Sort(out.Strangers)
	return out, nil
}

// volumes are the UIDs of the partitions that were given, and of those that there
// are now: the export of one that was made meanwhile is no stranger.
func (v *Verifier) volumes(ctx context.Context, partitions []v1alpha1.NVMePartition) ([]types.UID, error) {
	var now v1alpha1.NVMePartitionList
	if err := v.exporter.cache.List(ctx, &now); err != nil {
		return nil, fmt.Errorf("list partitions of this node: %w", err)
	}
	var out []types.UID
	for _, p := range slices.Concat(partitions, now.Items) {
		out = append(out, p.UID)
	}
	return out, nil
}

func (v *Verifier) differences(ctx context.Context, p *v1alpha1.NVMePartition, last export.Volume, o export.Observation, drives *driveCheck, at Portals) (out, guests []string, err error) {
	path, err := drives.path(p)
	if err != nil {
		return nil, nil, err
	}
	want, err := v.exporter.desired(ctx, p, path, at)
	if err != nil {
		return nil, nil, err
	}
	if !slices.Equal(want.Portals, last.Portals) {
		out = append(out, fmt.Sprintf("portals of the node: want %s, exported on %s", portals(want.Portals), portals(last.Portals)))
	}
	differences, err := o.Differences(want)
	return append(out, differences...), o.Guests(want), err
}

func portals(list []v1alpha1.Portal) string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%s %s %d", p.Transport, p.Address, p.Port))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// oncePortals reads the portals of each transport once.
type oncePortals struct {
	from Portals
	read map[v1alpha1.Transport][]v1alpha1.Portal
}

func (o oncePortals) On(ctx context.Context, t v1alpha1.Transport) ([]v1alpha1.Portal, error) {
	if list, ok := o.read[t]; ok {
		return list, nil
	}
	list, err := o.from.On(ctx, t)
	if err == nil {
		o.read[t] = list
	}
	return list, err
}

// driveCheck confirms remembered slices with one read of each drive.
type driveCheck struct {
	scan    inventory.Scan
	locator *Locator
	parts   map[string][]inventory.Partition
}

func (c *driveCheck) path(p *v1alpha1.NVMePartition) (string, error) {
	d, err := driveOf(c.scan, p.Spec.ParentDeviceSerialNumber)
	if err != nil {
		return "", err
	}
	parts, ok := c.parts[d.Name]
	if !ok {
		if parts, err = c.locator.drives.Partitions(d.Name); err != nil {
			return "", err
		}
		c.parts[d.Name] = parts
	}
	uuid := PartitionUUID(p)
	if seen, ok := c.locator.recall(place{d.Serial, uuid}); ok {
		if seen, ok = confirm(seen, parts); ok {
			return seen.DevicePath, nil
		}
	}
	return "", fmt.Errorf("the kernel does not show partition %s of drive %q where it was", uuid, d.Serial)
}
