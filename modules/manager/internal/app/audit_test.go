package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// findings are what an audit of all objects finds wrong.
type findings struct {
	// leaks: something is held that nobody has, or the books are wrong.
	leaks []string
	// doubleUses: something is had twice.
	doubleUses []string
}

func (f findings) err() error {
	if len(f.leaks)+len(f.doubleUses) == 0 {
		return nil
	}
	return fmt.Errorf("leaks %q, double uses %q", f.leaks, f.doubleUses)
}

func (f *findings) leak(format string, args ...any) {
	f.leaks = append(f.leaks, fmt.Sprintf(format, args...))
}

func (f *findings) doubleUse(format string, args ...any) {
	f.doubleUses = append(f.doubleUses, fmt.Sprintf(format, args...))
}

// world is every object that the manager keeps in order.
type world struct {
	devices    v1alpha1.NVMeDeviceList
	claims     v1alpha1.NVMeDeviceClaimList
	partitions v1alpha1.NVMePartitionList
	nodes      v1alpha1.RDMAStorageNodeList
}

func look(ctx context.Context) (*world, error) {
	w := &world{}
	return w, errors.Join(server.client.List(ctx, &w.devices), server.client.List(ctx, &w.claims),
		server.client.List(ctx, &w.partitions), server.client.List(ctx, &w.nodes))
}

// audit compares all objects with each other. What the manager is still about to
// do may be found, too.
func (w *world) audit() findings {
	var f findings
	claims := map[types.UID]*v1alpha1.NVMeDeviceClaim{}
	for i := range w.claims.Items {
		claims[w.claims.Items[i].UID] = &w.claims.Items[i]
	}
	owned, nodeFree := map[types.UID]string{}, map[string]int64{}
	for i := range w.devices.Items {
		d := &w.devices.Items[i]
		used := w.partitionsOn(d, &f)
		if used > d.Spec.TotalCapacity {
			f.doubleUse("drive %s holds %d bytes of %d", d.Name, used, d.Spec.TotalCapacity)
		}
		var free *int64
		if ref := d.Status.ClaimRef; ref != nil {
			free = ptr.To(max(0, d.Spec.TotalCapacity-used))
			nodeFree[d.Spec.NodeName] += *free
			if claims[ref.UID] == nil {
				f.leak("drive %s belongs to claim %s, which is gone", d.Name, ref.Name)
			}
			if owned[ref.UID] != "" {
				f.doubleUse("claim %s owns drives %s and %s", ref.Name, owned[ref.UID], d.Name)
			}
			owned[ref.UID] = d.Name
		}
		if !ptr.Equal(free, d.Status.FreeCapacity) {
			f.leak("drive %s has %s bytes free, published %s", d.Name, number(free), number(d.Status.FreeCapacity))
		}
	}
	for i := range w.nodes.Items {
		n := &w.nodes.Items[i]
		if free := nodeFree[n.Name]; n.Status.FreeCapacity == nil || *n.Status.FreeCapacity != free {
			f.leak("node %s has %d bytes free, published %s", n.Name, free, number(n.Status.FreeCapacity))
		}
	}
	for _, c := range claims {
		if c.Status.Active && owned[c.UID] != c.Status.MatchedDevice {
			f.leak("claim %s says that it owns drive %s, and owns %q", c.Name, c.Status.MatchedDevice, owned[c.UID])
		}
	}
	return f
}

// partitionsOn sums up the partitions on a drive and compares them with its
// reservations.
func (w *world) partitionsOn(d *v1alpha1.NVMeDevice, f *findings) int64 {
	var used int64
	reserved := slices.Clone(d.Status.Reservations)
	for i := range w.partitions.Items {
		p := &w.partitions.Items[i]
		if p.Spec.NodeName != d.Spec.NodeName || p.Spec.ParentDeviceSerialNumber != d.Spec.SerialNumber {
			continue
		}
		size := max(p.Spec.Size, p.Status.AllocatedCapacity)
		used += size
		at := slices.IndexFunc(reserved, func(r v1alpha1.Reservation) bool { return r.UID == p.UID })
		if at < 0 {
			f.doubleUse("partition %s is on drive %s without a reservation", p.Name, d.Name)
			continue
		}
		if reserved[at].Size != size {
			f.leak("drive %s reserves %d bytes for partition %s of %d", d.Name, reserved[at].Size, p.Name, size)
		}
		reserved = slices.Delete(reserved, at, at+1)
	}
	for _, r := range reserved {
		f.leak("drive %s reserves for partition %s, which is not on it", d.Name, r.Name)
	}
	return used
}

func number(n *int64) string {
	if n == nil {
		return "none"
	}
	return fmt.Sprint(*n)
}
