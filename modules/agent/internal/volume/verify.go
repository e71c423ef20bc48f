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
	// node. They are never touched.
	Strangers []string
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
	var uids []types.UID
	for _, p := range partitions {
		uids = append(uids, p.UID)
	}
	for name, backend := range v.exporter.backends {
		o, err := backend.Observe(ctx)
		if err != nil {
			return Verification{}, err
		}
		observed[name] = o
		out.Strangers = append(out.Strangers, o.Strangers(uids)...)
	}
	slices.Sort(out.Strangers)
	drives := driveCheck{scan: v.locator.drives.Scan(ctx), locator: v.locator, parts: map[string][]inventory.Partition{}}
	at := oncePortals{from: v.exporter.portals, read: map[v1alpha1.Transport][]v1alpha1.Portal{}}
	for i := range partitions {
		p := &partitions[i]
		last, ok := v.exporter.last(p.UID)
		o := observed[p.Spec.TargetBackend]
		if !ok || o == nil || !p.DeletionTimestamp.IsZero() {
			continue
		}
		differences, err := v.differences(ctx, p, last, o, &drives, at)
		if err != nil {
			differences = []string{err.Error()}
		}
		if len(differences) > 0 {
			out.Broken[p.UID] = differences
		}
	}
	return out, nil
}

func (v *Verifier) differences(ctx context.Context, p *v1alpha1.NVMePartition, last export.Volume, o export.Observation, drives *driveCheck, at Portals) ([]string, error) {
	path, err := drives.path(p)
	if err != nil {
		return nil, err
	}
	want, err := v.exporter.desired(ctx, p, path, at)
	if err != nil {
		return nil, err
	}
	var out []string
	if !slices.Equal(want.Portals, last.Portals) {
		out = append(out, fmt.Sprintf("portals of the node: want %s, exported on %s", portals(want.Portals), portals(last.Portals)))
	}
	differences, err := o.Differences(want)
	return append(out, differences...), err
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
