package app_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/app"
)

const poolGUID = v1alpha1.PoolGUID("16223331268497365322")

// pool makes a live node that owns a pool with so many bytes.
func pool(t *testing.T, node string, free int64) *v1alpha1.StorageNode {
	t.Helper()
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonObservationSucceeded, "")
	ready.ObservedGeneration = 1
	owner := &v1alpha1.StorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec:       v1alpha1.StorageNodeSpec{AuthoritativePoolGUIDs: []v1alpha1.PoolGUID{poolGUID}, NetworkDomain: "rack-1"},
		Status: v1alpha1.StorageNodeStatus{
			Conditions: []metav1.Condition{ready},
			Pools:      []v1alpha1.PoolStatus{{GUID: poolGUID, Name: "tank", FreeBytes: free, SampleGeneration: 1, Ready: true}},
		},
	}
	create(t, lease(node, time.Now()), storageNode(node), owner)
	return owner
}

func volume(name string, units int64) *v1alpha1.Volume {
	return &v1alpha1.Volume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.SliceFinalizer}},
		Spec: v1alpha1.VolumeSpec{
			Type: v1alpha1.VolumeBlock, Capacity: units * unit, Transport: v1alpha1.ProtocolNVMeTCP, Provenance: v1alpha1.ProvenanceDynamic,
			DeletionPolicy: v1alpha1.DeletionDelete, RequestFingerprint: strings.Repeat("a", 64),
		},
	}
}

func placedInPool(v *v1alpha1.Volume, node string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(v), v); err != nil {
			return err
		}
		if v.Spec.OwnerNode != node || node != "" && (v.Spec.PoolGUID != poolGUID || v.Spec.NetworkDomain != "rack-1") {
			return fmt.Errorf("volume %s is on node %q, pool %q; conditions %+v", v.Name, v.Spec.OwnerNode, v.Spec.PoolGUID, v.Status.Conditions)
		}
		return nil
	}
}

func taken(t *testing.T, units int64) int64 {
	t.Helper()
	bytes, err := capacity.Zvol(units*unit, 0)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

func TestVolumeIsReservedAndPlacedInTwoWrites(t *testing.T) {
	writes := start(t)
	owner := pool(t, "storage-0", taken(t, 100))
	v := volume("v1", 60)
	create(t, v)
	eventually(t, "place v1", placedInPool(v, "storage-0"))
	quiet(t)
	if got := writes.to("/volumes/"); len(got) != 1 {
		t.Errorf("writes to the volume: %v", got)
	}
	if got := writes.to("/storagenodes/"); len(got) != 1 {
		t.Errorf("writes to the storage node: %v", got)
	}
	get(t, owner)
	want := v1alpha1.PoolReservation{PoolGUID: poolGUID, Name: "v1", UID: v.UID, Size: taken(t, 60)}
	if len(owner.Status.Reservations) != 1 || owner.Status.Reservations[0] != want {
		t.Errorf("reservations = %+v, want %+v", owner.Status.Reservations, want)
	}

	second := volume("v2", 60)
	create(t, second)
	eventually(t, "refuse v2", func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(second), second); err != nil {
			return err
		}
		return conditionIs(second.Status.Conditions, v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoCandidate, "0/1 pools can hold", "1 insufficient space")
	})
	remove(t, second)
	eventually(t, "an unplaced volume goes", gone(second))

	// The agent makes it, and its next sample contains it.
	alter(t, v, func(v *v1alpha1.Volume) { v.Status.ActualCapacity, v.Status.AccountedGeneration = v.Spec.Capacity, 2 })
	alter(t, owner, func(o *v1alpha1.StorageNode) {
		o.Status.Pools[0].SampleGeneration, o.Status.Pools[0].FreeBytes = 2, taken(t, 100)-taken(t, 60)
	})
	eventually(t, "the reservation is dropped", func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
			return err
		}
		if n := len(owner.Status.Reservations); n != 0 {
			return fmt.Errorf("%d reservations", n)
		}
		return nil
	})
	third := volume("v3", 30)
	create(t, third)
	eventually(t, "place v3 in the rest", placedInPool(third, "storage-0"))
}

func TestTwoManagersWithoutElectionNeverOvercommitAPool(t *testing.T) {
	const count = 60
	empty(t)
	first, _ := manage(t, func(*app.Options) {})
	second, _ := manage(t, func(*app.Options) {})
	pool(t, "storage-0", 20*taken(t, 10))
	for i := range count {
		create(t, volume(fmt.Sprintf("v%d", i), 10))
	}
	settles(t, "60 volumes", func(ctx context.Context) error {
		var all v1alpha1.VolumeList
		if err := server.client.List(ctx, &all); err != nil {
			return err
		}
		placed, undecided := 0, 0
		for _, v := range all.Items {
			switch {
			case v.Spec.OwnerNode != "":
				placed++
			case len(v.Status.Conditions) == 0:
				undecided++
			}
		}
		if placed > 20 {
			t.Errorf("%d volumes are placed where 20 fit", placed)
		}
		if placed != 20 || undecided != 0 {
			return fmt.Errorf("%d volumes are placed, want 20; %d are undecided", placed, undecided)
		}
		return nil
	})
	if len(first.to("/volumes/")) == 0 || len(second.to("/volumes/")) == 0 {
		t.Error("one manager wrote nothing: this was no competition")
	}
}
