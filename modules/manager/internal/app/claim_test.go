package app_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/app"
)

func deviceIs(d *v1alpha1.NVMeDevice, state v1alpha1.DeviceState, owner *v1alpha1.NVMeDeviceClaim) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.State != state {
			return fmt.Errorf("device %s is %q, want %q", d.Name, d.Status.State, state)
		}
		switch ref := d.Status.ClaimRef; {
		case owner == nil && ref != nil:
			return fmt.Errorf("device %s belongs to %+v, want nobody", d.Name, *ref)
		case owner != nil && (ref == nil || *ref != v1alpha1.ObjectReference{Namespace: owner.Namespace, Name: owner.Name, UID: owner.UID}):
			return fmt.Errorf("device %s belongs to %+v, want %s (%s)", d.Name, ref, owner.Name, owner.UID)
		}
		return nil
	}
}

func TestClaimOwnsTheDriveWithItsSerialNumber(t *testing.T) {
	counted := start(t)
	d, other := device("d1", "storage-a", "S1", 16), device("d2", "storage-a", "S10", 16)
	create(t, d, other)
	eventually(t, "unclaimed drive", deviceIs(d, v1alpha1.DeviceAvailable, nil))

	c := claim("c", "S1")
	create(t, c)
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound, "d1", "storage-a"))
	eventually(t, "claimed drive", deviceIs(d, v1alpha1.DeviceClaimed, c))
	eventually(t, "other drive", deviceIs(other, v1alpha1.DeviceAvailable, nil))
	if !c.Status.Active || c.Status.MatchedDevice != "d1" || c.Status.NodeName != "storage-a" {
		t.Errorf("claim status %+v, want active on d1 in storage-a", c.Status)
	}
	eventually(t, "event", told(c, v1alpha1.ReasonBound))
	// Finalizer and status of the claim; owner of the device.
	if got := counted.to("/nvmedeviceclaims/c"); len(got) != 2 {
		t.Errorf("writes to the claim %v, want 2", got)
	}

	remove(t, c)
	eventually(t, "deleted claim", gone(c))
	eventually(t, "released drive", deviceIs(d, v1alpha1.DeviceAvailable, nil))
}

func TestClaimWaitsAndSaysWhy(t *testing.T) {
	signature := func(d *v1alpha1.NVMeDevice) *v1alpha1.NVMeDevice {
		d.Status.Conditions[1] = condition(v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonForeignSignature, "xfs at offset 0")
		return d
	}
	cases := map[string]struct {
		devices []*v1alpha1.NVMeDevice
		reason  string
		says    []string
	}{
		"no such drive": {reason: v1alpha1.ReasonDeviceNotFound, says: []string{`"S1"`}},
		"a serial number is not a prefix": {
			devices: []*v1alpha1.NVMeDevice{device("d1", "storage-a", "S1X", 16)},
			reason:  v1alpha1.ReasonDeviceNotFound,
		},
		"the same serial number in two nodes": {
			devices: []*v1alpha1.NVMeDevice{device("d1", "storage-a", "S1", 16), device("d2", "storage-b", "S1", 16)},
			reason:  v1alpha1.ReasonDuplicateDevices, says: []string{"storage-a", "storage-b"},
		},
		"a drive with somebody's filesystem": {
			devices: []*v1alpha1.NVMeDevice{signature(device("d1", "storage-a", "S1", 16))},
			reason:  v1alpha1.ReasonDriveNotBlank, says: []string{"xfs at offset 0", "d1"},
		},
		"a drive in use": {
			devices: []*v1alpha1.NVMeDevice{func() *v1alpha1.NVMeDevice {
				d := device("d1", "storage-a", "S1", 16)
				d.Status.Conditions[1] = condition(v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonInUse, "mounted on /srv")
				return d
			}()},
			reason: v1alpha1.ReasonDriveUnavailable, says: []string{"InUse", "mounted on /srv"},
		},
		"two drives of one node with one serial number": {
			devices: []*v1alpha1.NVMeDevice{func() *v1alpha1.NVMeDevice {
				d := device("d1", "storage-a", "S1", 16)
				d.Status.Conditions[0] = condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonDuplicateSerial, "also at 0000:5e:00.0")
				return d
			}()},
			reason: v1alpha1.ReasonDriveUnavailable, says: []string{"DuplicateSerial", "also at 0000:5e:00.0"},
		},
		"a drive that was never looked at": {
			devices: []*v1alpha1.NVMeDevice{func() *v1alpha1.NVMeDevice {
				d := device("d1", "storage-a", "S1", 16)
				d.Status.Conditions = d.Status.Conditions[:1]
				return d
			}()},
			reason: v1alpha1.ReasonDriveUnavailable, says: []string{"MediaUsable"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			start(t)
			c := claim("c", "S1")
			for _, d := range tc.devices {
				create(t, d)
			}
			create(t, c)
			eventually(t, "claim", bound(c, metav1.ConditionFalse, tc.reason, tc.says...))
			if c.Status.Active || c.Status.MatchedDevice != "" {
				t.Errorf("claim status %+v, want it inactive and without device", c.Status)
			}
			for _, d := range tc.devices {
				if get(t, d); d.Status.ClaimRef != nil {
					t.Errorf("device %s belongs to %+v, want nobody", d.Name, *d.Status.ClaimRef)
				}
			}
		})
	}
}

func TestClaimIsBoundWhenItsDriveBecomesUsable(t *testing.T) {
	start(t)
	d, c := device("d1", "storage-a", "S1", 16), claim("c", "S1")
	d.Status.Conditions[1] = condition(v1alpha1.ConditionMediaUsable, metav1.ConditionFalse, v1alpha1.ReasonForeignSignature, "ext4")
	create(t, d, c)
	eventually(t, "claim", bound(c, metav1.ConditionFalse, v1alpha1.ReasonDriveNotBlank, "ext4"))
	eventually(t, "drive", deviceIs(d, v1alpha1.DeviceUnavailable, nil))
	alter(t, d, func(d *v1alpha1.NVMeDevice) {
		d.Status.Conditions[1] = condition(v1alpha1.ConditionMediaUsable, metav1.ConditionTrue, v1alpha1.ReasonBlank, "")
	})
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound))
	eventually(t, "drive", deviceIs(d, v1alpha1.DeviceClaimed, c))
}

func TestMovedDriveIsBoundWhereItIs(t *testing.T) {
	start(t)
	old, d, c := device("d1", "storage-a", "S1", 16), device("d2", "storage-b", "S1", 16), claim("c", "S1")
	old.Status.Conditions[0] = condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNotFound, "not in the last scan")
	create(t, old, d, c)
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound, "storage-b"))
}

func lose(d *v1alpha1.NVMeDevice) {
	d.Status.Conditions[0] = condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNotFound, "not in the last scan")
}

func TestDriveComesBackOnAnotherPCIAddress(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	p := partition("p", 2)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	d := device("a", "a", "a", 16)
	alter(t, d, lose)
	eventually(t, "come back in another slot", func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Spec.PCIAddress = "0000:5e:00.0"
		return server.client.Update(ctx, d)
	})
	alter(t, d, func(d *v1alpha1.NVMeDevice) {
		d.Status.Conditions[0] = condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionTrue, v1alpha1.ReasonDiscovered, "")
	})
	r := partition("r", 1)
	create(t, r)
	eventually(t, "partition after the drive came back", placedOn(r, "a"))
	if err := bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound)(t.Context()); err != nil {
		t.Error(err)
	}
	if err := deviceIs(d, v1alpha1.DeviceClaimed, c)(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestClaimFollowsItsDriveToAnotherNodeOnceItIsEmpty(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	p := partition("p", 2)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	old, moved := device("a", "a", "a", 16), device("b", "b", "a", 16)
	alter(t, old, lose)
	create(t, lease("b", time.Now()), storageNode("b"), moved)
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonDriveMoved, "node b", namespace+"/p"))
	eventually(t, "event", told(c, v1alpha1.ReasonDriveMoved))
	quiet(t)
	if err := all(deviceIs(old, v1alpha1.DeviceClaimed, c), deviceIs(moved, v1alpha1.DeviceAvailable, nil))(t.Context()); err != nil {
		t.Error(err)
	}
	remove(t, p)
	dropFinalizers(t, p)
	eventually(t, "empty drive", all(deviceIs(old, v1alpha1.DeviceUnavailable, nil), deviceIs(moved, v1alpha1.DeviceClaimed, c)))
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound, "node b"))
	q := partition("q", 2)
	create(t, q)
	eventually(t, "partition on the moved drive", placedOn(q, "b"))
}

func TestDuplicateOfAClaimedDriveIsNamedAndGetsNothing(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	create(t, lease("b", time.Now()), storageNode("b"), device("b", "b", "a", 99))
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound, "nodes a and b", "nothing new is placed"))
	p := partition("p", 2)
	create(t, p)
	eventually(t, "partition", notPlaced(p, "1 not claimed, 1 serial number not unique"))
	eventually(t, "drive", deviceIs(device("b", "b", "a", 99), v1alpha1.DeviceAvailable, nil))
}

func TestDriveWhoseObjectWasMadeAnewIsAdoptedByItsClaim(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	p := partition("p", 2)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	remove(t, device("a", "a", "a", 16))
	eventually(t, "claim", bound(c, metav1.ConditionFalse, v1alpha1.ReasonDeviceNotFound))
	create(t, device("a", "a", "a", 16))
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound))
	eventually(t, "books", func(ctx context.Context) error {
		w, err := look(ctx)
		return errors.Join(err, w.audit().err())
	})
}

func TestAnotherClaimDoesNotAdoptADriveWithPartitions(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	p := partition("p", 2)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	remove(t, device("a", "a", "a", 16))
	eventually(t, "claim", bound(c, metav1.ConditionFalse, v1alpha1.ReasonDeviceNotFound))
	tearOut(t, c)
	create(t, device("a", "a", "a", 16))
	again := claim("a", "a")
	create(t, again)
	eventually(t, "claim of the same name", bound(again, metav1.ConditionFalse, v1alpha1.ReasonDriveNotEmpty, namespace+"/p"))
	remove(t, p)
	dropFinalizers(t, p)
	eventually(t, "claim", bound(again, metav1.ConditionTrue, v1alpha1.ReasonBound))
}

func TestObjectOfADriveThatIsGoneForGoodIsRemoved(t *testing.T) {
	empty(t)
	lost := func(d *v1alpha1.NVMeDevice, since time.Duration) *v1alpha1.NVMeDevice {
		lose(d)
		d.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-since))
		return d
	}
	claimed, c := boundDrive(t, "claimed", 8)
	alter(t, claimed, func(d *v1alpha1.NVMeDevice) { lost(d, time.Hour) })
	holding := lost(device("holding", "n", "holding", 8), time.Hour)
	p := partition("p", 1)
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber = "n", "holding"
	p.Spec.ClaimRef = &v1alpha1.ObjectReference{Namespace: "default", Name: "former", UID: "former"}
	create(t, p)
	unseen := lost(device("unseen", "n", "unseen", 8), time.Hour)
	unseen.Status.Conditions[0].Status, unseen.Status.Conditions[0].Reason = metav1.ConditionUnknown, v1alpha1.ReasonScanDegraded
	create(t, holding, unseen, lost(device("recent", "n", "recent", 8), time.Minute))
	old := lost(device("old", "n", "old", 8), time.Hour)
	create(t, old)
	manage(t, func(*app.Options) {})
	eventually(t, "drive that is gone for good", gone(old))
	eventually(t, "the others", all(
		deviceIs(claimed, v1alpha1.DeviceClaimed, c), deviceIs(holding, v1alpha1.DeviceUnavailable, nil),
		deviceIs(unseen, v1alpha1.DeviceUnavailable, nil), deviceIs(device("recent", "n", "recent", 8), v1alpha1.DeviceUnavailable, nil)))
	quiet(t)
	for _, d := range []*v1alpha1.NVMeDevice{claimed, holding, unseen, device("recent", "n", "recent", 8)} {
		get(t, d)
	}
}

func TestSecondClaimNamesTheFirstAndFollowsIt(t *testing.T) {
	start(t)
	d, first, second := device("d1", "storage-a", "S1", 16), claim("first", "S1"), claim("second", "S1")
	create(t, d, first)
	eventually(t, "first claim", bound(first, metav1.ConditionTrue, v1alpha1.ReasonBound))
	create(t, second)
	eventually(t, "second claim", bound(second, metav1.ConditionFalse, v1alpha1.ReasonClaimedByAnother, "default/first"))
	remove(t, first)
	eventually(t, "deleted claim", gone(first))
	eventually(t, "second claim", bound(second, metav1.ConditionTrue, v1alpha1.ReasonBound))
	eventually(t, "drive", deviceIs(d, v1alpha1.DeviceClaimed, second))
}

func TestDeletedClaimWaitsForItsPartitionsAndListsThem(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	p := partition("p", 2)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))

	remove(t, c)
	eventually(t, "claim", bound(c, metav1.ConditionTrue, v1alpha1.ReasonPartitionsRemain, namespace+"/p"))
	d := device("a", "a", "a", 16)
	eventually(t, "drive", deviceIs(d, v1alpha1.DeviceClaimed, c))
	if c.Status.Active {
		t.Error("the deleted claim is active")
	}
	late := partition("late", 2)
	create(t, late)
	eventually(t, "late partition", notPlaced(late, "1 claim not active"))

	remove(t, p)
	dropFinalizers(t, p)
	eventually(t, "deleted claim", gone(c))
	eventually(t, "drive", deviceIs(d, v1alpha1.DeviceAvailable, nil))
	eventually(t, "late partition", notPlaced(late, "1 not claimed"))
}

func TestDriveOfAClaimThatWasTornOutIsReleased(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	tearOut(t, c)
	eventually(t, "drive", func(ctx context.Context) error {
		d := device("a", "a", "a", 16)
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.ClaimRef != nil && d.Status.ClaimRef.UID == c.UID {
			return fmt.Errorf("the drive still belongs to the claim that is gone")
		}
		return nil
	})
}

func TestNewClaimOfTheSameNameIsAnotherOne(t *testing.T) {
	start(t)
	c := readyDrive(t, "a", 16)
	former := c.UID
	remove(t, c)
	eventually(t, "deleted claim", gone(c))
	again := claim("a", "a")
	create(t, again)
	eventually(t, "claim", bound(again, metav1.ConditionTrue, v1alpha1.ReasonBound))
	eventually(t, "drive", deviceIs(device("a", "a", "a", 16), v1alpha1.DeviceClaimed, again))
	if again.UID == former {
		t.Error("the API server gave the same UID twice")
	}
}

// tearOut removes a claim by hand, with the finalizer that the manager puts back.
func tearOut(t *testing.T, c *v1alpha1.NVMeDeviceClaim) {
	t.Helper()
	// Deleted first: the manager puts its finalizer back on a claim that lives.
	remove(t, c)
	dropFinalizers(t, c)
	eventually(t, "claim that was torn out", gone(c))
}

func dropFinalizers(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, "drop the finalizers of "+object.GetName(), func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return client.IgnoreNotFound(err)
		}
		object.SetFinalizers(nil)
		return server.client.Update(ctx, object)
	})
}
