package app_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/app"
)

// errDead is what a manager gets for every request after its crash point.
var errDead = errors.New("this manager is dead")

// crash is the wire of a manager that dies at one write of its life: just before
// it is sent, or just after it was taken and before the answer. Events are not
// counted: nothing depends on them.
type crash struct {
	at    int // counts from 1
	after bool
	dead  chan struct{}

	mu     sync.Mutex
	writes int
	// effect at which it died.
	effect string
}

func (c *crash) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		c.mu.Lock()
		select {
		case <-c.dead:
			c.mu.Unlock()
			return nil, errDead
		default:
		}
		dies := false
		if changesOurs(request) {
			c.writes++
			dies = c.writes == c.at
		}
		if !dies {
			c.mu.Unlock()
			return next.RoundTrip(request)
		}
		defer c.mu.Unlock()
		defer close(c.dead)
		c.effect = caller()
		if c.after {
			response, err := next.RoundTrip(request)
			if err != nil {
				return nil, err
			}
			_ = response.Body.Close()
		}
		return nil, errDead
	})
}

// flow is something that the manager does: from what it finds to what there is
// in the end.
type flow struct {
	name  string
	found func(*testing.T)
	// done checks the end, beside the books, which the audit compares.
	done func(context.Context) error
}

// boundDrive makes a live node with a drive that a claim owns, as if a manager
// had bound it.
func boundDrive(t *testing.T, name string, units int64, reservations ...v1alpha1.Reservation) (*v1alpha1.NVMeDevice, *v1alpha1.NVMeDeviceClaim) {
	t.Helper()
	c := claim(name, name)
	c.Finalizers = []string{v1alpha1.ClaimFinalizer}
	create(t, lease(name, time.Now()), storageNode(name), c)
	d := device(name, name, name, units)
	d.Status.State, d.Status.Reservations = v1alpha1.DeviceClaimed, reservations
	d.Status.ClaimRef = &v1alpha1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	create(t, d)
	c.Status = v1alpha1.NVMeDeviceClaimStatus{Active: true, MatchedDevice: name, NodeName: name, Conditions: []metav1.Condition{
		condition(v1alpha1.ConditionBound, metav1.ConditionTrue, v1alpha1.ReasonBound, "owns NVMeDevice "+name+" in node "+name),
	}}
	if err := server.client.Status().Update(t.Context(), c); err != nil {
		t.Fatalf("write the status of claim %s: %v", name, err)
	}
	return d, c
}

func reservation(p *v1alpha1.NVMePartition, size int64) v1alpha1.Reservation {
	return v1alpha1.Reservation{
		ObjectReference: v1alpha1.ObjectReference{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Size: size, TargetBackend: p.Spec.TargetBackend,
	}
}

// onDrive is a partition that was placed on a bound drive.
func onDrive(p *v1alpha1.NVMePartition, d *v1alpha1.NVMeDevice) *v1alpha1.NVMePartition {
	p.Spec.NodeName, p.Spec.ParentDeviceSerialNumber, p.Spec.ClaimRef = d.Spec.NodeName, d.Spec.SerialNumber, d.Status.ClaimRef
	return p
}

// all passes when every check does.
func all(checks ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		var errs []error
		for _, check := range checks {
			errs = append(errs, check(ctx))
		}
		return errors.Join(errs...)
	}
}

func owner(deviceName, claimName string) func(context.Context) error {
	return func(ctx context.Context) error {
		d := &v1alpha1.NVMeDevice{}
		if err := server.client.Get(ctx, client.ObjectKey{Name: deviceName}, d); err != nil {
			return err
		}
		has := ""
		if d.Status.ClaimRef != nil {
			has = d.Status.ClaimRef.Name
		}
		if has != claimName {
			return fmt.Errorf("drive %s belongs to %q, want %q", deviceName, has, claimName)
		}
		return nil
	}
}

func placedAnywhere(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		p := partition(name, 1)
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err
		}
		if p.Spec.NodeName == "" {
			return fmt.Errorf("partition %s is not placed", name)
		}
		return nil
	}
}

func flows() []flow {
	return []flow{
		{
			name: "bind",
			found: func(t *testing.T) {
				create(t, lease("a", time.Now()), storageNode("a"), device("a", "a", "a", 8), device("spare", "a", "spare", 8), claim("a", "a"))
			},
			done: all(owner("a", "a"), owner("spare", ""), deviceIs(device("spare", "a", "spare", 8), v1alpha1.DeviceAvailable, nil),
				bound(claim("a", "a"), metav1.ConditionTrue, v1alpha1.ReasonBound)),
		},
		{
			name: "release",
			found: func(t *testing.T) {
				p := partition("gone", 2)
				create(t, p)
				_, c := boundDrive(t, "a", 8, reservation(p, 2*unit))
				dropFinalizers(t, p)
				remove(t, p)
				remove(t, c)
				_, torn := boundDrive(t, "torn", 8)
				dropFinalizers(t, torn)
				remove(t, torn)
			},
			done: all(gone(claim("a", "a")), owner("a", ""), owner("torn", "")),
		},
		{
			name: "wait",
			found: func(t *testing.T) {
				p := partition("p", 2)
				create(t, p)
				d, c := boundDrive(t, "a", 8, reservation(p, 2*unit))
				onDrive(p, d)
				if err := server.client.Update(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				remove(t, c)
			},
			done: all(owner("a", "a"), bound(claim("a", "a"), metav1.ConditionTrue, v1alpha1.ReasonPartitionsRemain, namespace+"/p")),
		},
		{
			name: "move",
			found: func(t *testing.T) {
				d, _ := boundDrive(t, "a", 8)
				alter(t, d, func(d *v1alpha1.NVMeDevice) {
					d.Status.Conditions[0] = condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNotFound, "pulled")
				})
				create(t, lease("b", time.Now()), storageNode("b"), device("b", "b", "a", 8))
			},
			done: all(owner("a", ""), owner("b", "a"), bound(claim("a", "a"), metav1.ConditionTrue, v1alpha1.ReasonBound, "node b")),
		},
		{
			name: "retire",
			found: func(t *testing.T) {
				d := device("a", "a", "a", 8)
				lose(d)
				d.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
				create(t, d)
			},
			done: gone(device("a", "a", "a", 8)),
		},
		{
			name: "place",
			found: func(t *testing.T) {
				boundDrive(t, "a", 8)
				boundDrive(t, "b", 8)
				create(t, partition("p0", 4), partition("p1", 4), partition("p2", 4), partition("huge", 99))
			},
			done: all(placedAnywhere("p0"), placedAnywhere("p1"), placedAnywhere("p2"),
				notPlaced(partition("huge", 99), "2 insufficient space")),
		},
		{
			name: "withdraw",
			found: func(t *testing.T) {
				// A dead manager reserved for two that were deleted, and another one for one
				// that was placed elsewhere.
				deleted, vanished, elsewhere := partition("deleted", 1), partition("vanished", 1), partition("elsewhere", 2)
				create(t, deleted, vanished, elsewhere)
				boundDrive(t, "a", 8, sorted(reservation(deleted, unit), reservation(vanished, unit), reservation(elsewhere, 2*unit))...)
				b, _ := boundDrive(t, "b", 8, reservation(elsewhere, 2*unit))
				onDrive(elsewhere, b)
				if err := server.client.Update(t.Context(), elsewhere); err != nil {
					t.Fatal(err)
				}
				remove(t, deleted)
				dropFinalizers(t, vanished)
				remove(t, vanished)
			},
			done: all(gone(partition("deleted", 1)), placedOn(partition("elsewhere", 2), "b")),
		},
		{
			// The others have more to do, and may be dead before they get here.
			name: "letGo",
			found: func(t *testing.T) {
				deleted, deletedVolume := partition("deleted", 1), volume("deleted", 1)
				create(t, deleted, deletedVolume)
				remove(t, deleted)
				remove(t, deletedVolume)
				// Nothing else wakes those who look after reservations.
				alter(t, pool(t, "a", taken(t, 10)), func(o *v1alpha1.StorageNode) {
					o.Status.Reservations = []v1alpha1.PoolReservation{{PoolGUID: poolGUID, Name: "vanished", UID: "00000000-0000-4000-8000-000000000001", Size: taken(t, 10)}}
				})
			},
			done: all(gone(partition("deleted", 1)), gone(volume("deleted", 1)), func(ctx context.Context) error {
				o := &v1alpha1.StorageNode{}
				if err := server.client.Get(ctx, client.ObjectKey{Name: "a"}, o); err != nil || len(o.Status.Reservations) == 0 {
					return err
				}
				return fmt.Errorf("reservations %+v", o.Status.Reservations)
			}),
		},
		{
			name: "pool",
			found: func(t *testing.T) {
				o := pool(t, "a", 2*taken(t, 10))
				// A dead manager reserved for one that was deleted.
				alter(t, o, func(o *v1alpha1.StorageNode) {
					o.Status.Reservations = []v1alpha1.PoolReservation{{PoolGUID: poolGUID, Name: "vanished", UID: "00000000-0000-4000-8000-000000000001", Size: taken(t, 10)}}
				})
				deleted := volume("deleted", 1)
				create(t, volume("v0", 10), volume("v1", 10), volume("huge", 99), deleted)
				remove(t, deleted)
			},
			done: all(placedInPool(volume("v0", 10), "a"), placedInPool(volume("v1", 10), "a"), gone(volume("deleted", 1)), func(ctx context.Context) error {
				o, huge := &v1alpha1.StorageNode{}, volume("huge", 99)
				if err := errors.Join(server.client.Get(ctx, client.ObjectKey{Name: "a"}, o), server.client.Get(ctx, client.ObjectKeyFromObject(huge), huge)); err != nil {
					return err
				}
				if len(o.Status.Reservations) != 2 {
					return fmt.Errorf("reservations %+v", o.Status.Reservations)
				}
				return conditionIs(huge.Status.Conditions, v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoCandidate, "1 insufficient space")
			}),
		},
		{
			name: "expire",
			found: func(t *testing.T) {
				create(t, lease("old", time.Now().Add(-time.Hour)), storageNode("old"))
			},
			done: ready("old", metav1.ConditionFalse, v1alpha1.ReasonHeartbeatExpired),
		},
		{
			name: "silence",
			found: func(t *testing.T) {
				create(t, lease("old", time.Now().Add(-time.Hour)), storageNode("old"), attachment("a", "old"))
				remove(t, attachment("a", "old"))
			},
			done: accessOf("a", metav1.ConditionUnknown, v1alpha1.ReasonStorageNodeSilent),
		},
		{
			name: "capacity",
			found: func(t *testing.T) {
				grown, former := partition("grown", 2), partition("former", 1)
				create(t, grown)
				d, _ := boundDrive(t, "a", 16, reservation(grown, 2*unit))
				onDrive(grown, d).Spec.Size = 5 * unit
				if err := server.client.Update(t.Context(), grown); err != nil {
					t.Fatal(err)
				}
				create(t, onDrive(former, d)) // by a version without reservations
				remove(t, former)             // and the agent has yet to act on it
				alter(t, d, func(d *v1alpha1.NVMeDevice) { d.Status.FreeCapacity = ptr.To(99 * unit) })
				alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) { n.Status.FreeCapacity = ptr.To(99 * unit) })
			},
			done: freeIs("a", 10),
		},
	}
}

func sorted(reservations ...v1alpha1.Reservation) []v1alpha1.Reservation {
	slices.SortFunc(reservations, func(a, b v1alpha1.Reservation) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return reservations
}

// TestCrashPoints lets a manager die before and after every write of every flow,
// starts another one, and compares all objects in the end. It fails when the
// code has a write at which no manager died.
func TestCrashPoints(t *testing.T) {
	reached := map[string]bool{}
	for _, f := range flows() {
		t.Run(f.name, func(t *testing.T) {
			points, leaks, doubleUses := 0, 0, 0
			for _, after := range []bool{false, true} {
				for at := 1; ; at++ {
					c := &crash{at: at, after: after, dead: make(chan struct{})}
					var found findings
					if !t.Run(fmt.Sprintf("write %d, after it %v", at, after), func(t *testing.T) { f.dies(t, c, &found) }) {
						t.Logf("died at %s", c.effect)
					}
					if c.effect == "" {
						break // the flow has no more writes
					}
					reached[c.effect] = true
					points, leaks, doubleUses = points+1, leaks+len(found.leaks), doubleUses+len(found.doubleUses)
				}
			}
			t.Logf("crash-points: manager flow=%s points=%d leaks=%d doubleUses=%d", f.name, points, leaks, doubleUses)
			if points == 0 {
				t.Error("the flow has no writes")
			}
		})
	}
	if t.Failed() {
		return
	}
	effects := effectsInCode(t)
	for _, effect := range effects {
		if !reached[effect] {
			t.Errorf("no manager died at %s", effect)
		}
	}
	for _, effect := range slices.Sorted(maps.Keys(reached)) {
		if !slices.Contains(effects, effect) {
			t.Errorf("a manager died at %s, which is no write that the code was searched for", effect)
		}
	}
}

// dies lets a manager die in the flow, if it comes to its crash point, and then
// another one finish, and puts down what is wrong in the end.
func (f flow) dies(t *testing.T, c *crash, found *findings) {
	empty(t)
	f.found(t)
	ended := make(chan struct{})
	stop := manageOver(t, c.wrap, func(*app.Options) {})
	// The end of the flow is looked for as well: it may come before the crash point.
	go func() {
		defer close(ended)
		for f.end(t.Context()) != nil && t.Context().Err() == nil {
			select {
			case <-c.dead:
				return
			case <-time.After(250 * time.Millisecond):
			}
		}
	}()
	<-ended
	select {
	case <-c.dead:
		stop()
		manage(t, func(*app.Options) {})
	default: // this manager has finished, and has no such write
	}
	settles(t, "the flow's end", func(ctx context.Context) error {
		if err := f.done(ctx); err != nil {
			return err
		}
		w, err := look(ctx)
		if err != nil {
			return err
		}
		*found = w.audit()
		return found.err()
	})
}

// end checks all of a flow's end.
func (f flow) end(ctx context.Context) error {
	w, err := look(ctx)
	return errors.Join(err, w.audit().err(), f.done(ctx))
}
