package app_test

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// freeIs checks the free capacity, in units, of a drive and its node.
func freeIs(name string, units int64) func(context.Context) error {
	return func(ctx context.Context) error {
		d, n := &v1alpha1.NVMeDevice{}, &v1alpha1.RDMAStorageNode{}
		if err := server.client.Get(ctx, client.ObjectKey{Name: name}, d); err != nil {
			return err
		}
		if err := server.client.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		for what, free := range map[string]*int64{"drive": d.Status.FreeCapacity, "node": n.Status.FreeCapacity} {
			if free == nil || *free != units*unit {
				return fmt.Errorf("%s %s has free capacity %v, want %d", what, name, free, units*unit)
			}
		}
		return nil
	}
}

func TestFreeCapacityFollowsThePartitions(t *testing.T) {
	counted := start(t)
	c := readyDrive(t, "a", 16)
	eventually(t, "empty drive", freeIs("a", 16))
	before := len(counted.to("/nvmedevices/a"))

	var partitions []*v1alpha1.NVMePartition
	for i := range 10 {
		p := partition(fmt.Sprintf("p%d", i), 1)
		create(t, p)
		partitions = append(partitions, p)
	}
	eventually(t, "ten partitions", freeIs("a", 6))
	if got := len(counted.to("/nvmedevices/a")) - before; got > 10 {
		t.Errorf("%d writes for ten partitions, want one for each at most", got)
	}
	for _, p := range partitions {
		remove(t, p)
		dropFinalizers(t, p)
	}
	eventually(t, "empty drive", freeIs("a", 16))

	remove(t, c)
	eventually(t, "unclaimed drive", func(ctx context.Context) error {
		d := &v1alpha1.NVMeDevice{}
		if err := server.client.Get(ctx, client.ObjectKey{Name: "a"}, d); err != nil {
			return err
		}
		if d.Status.FreeCapacity != nil {
			return fmt.Errorf("an unclaimed drive has free capacity %d", *d.Status.FreeCapacity)
		}
		return nil
	})
}

func TestFreeCapacityThatSomebodyElseWroteIsCorrected(t *testing.T) {
	start(t)
	readyDrive(t, "a", 16)
	eventually(t, "empty drive", freeIs("a", 16))
	wrong := int64(1)
	alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) { d.Status.FreeCapacity = &wrong })
	alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) { n.Status.FreeCapacity = &wrong })
	eventually(t, "corrected", freeIs("a", 16))
}
