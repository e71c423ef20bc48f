package app_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

func TestPartitionIsPlacedInOneWrite(t *testing.T) {
	counted := start(t)
	c := readyDrive(t, "a", 16)
	p := partition("p", 4)
	eventually(t, "free capacity", freeIs("a", 16))
	before := len(counted.to(""))
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	want := v1alpha1.ObjectReference{Namespace: "default", Name: "a", UID: c.UID}
	if p.Spec.ParentDeviceSerialNumber != "a" || p.Spec.ClaimRef == nil || *p.Spec.ClaimRef != want {
		t.Errorf("placed on drive %q by claim %+v, want a by %+v", p.Spec.ParentDeviceSerialNumber, p.Spec.ClaimRef, want)
	}
	quiet(t)
	if got := counted.to("/nvmepartitions/"); len(got) != 1 {
		t.Errorf("writes to the partition %v, want 1", got)
	}
	if got := counted.to("")[before:]; len(got) != 3 || !strings.HasSuffix(got[0], "/nvmedevices/a/status") ||
		len(counted.to("/rdmastoragenodes/a/status")) == 0 {
		t.Errorf("writes %v, want the reservation first, the placement and the free capacity of the node", got)
	}
	if get(t, p); len(p.Status.Conditions) != 0 {
		t.Errorf("conditions %+v, want none: they are the agent's", p.Status.Conditions)
	}
}

func TestPartitionWithoutRoomSaysWhyAndIsPlacedWhenThereIsRoom(t *testing.T) {
	counted := start(t)
	p := partition("p", 4)
	create(t, p)
	eventually(t, "no drive", notPlaced(p, "0/0 drives can hold 16Mi: no drive is known"))
	eventually(t, "event", told(p, v1alpha1.ReasonNoCandidate))

	readyDrive(t, "small", 3)
	eventually(t, "a small drive", notPlaced(p, "0/1 drives can hold 16Mi: 1 insufficient space"))
	before := len(counted.to("/nvmepartitions/p/status"))
	quiet(t)
	if after := len(counted.to("/nvmepartitions/p/status")); after != before {
		t.Errorf("%d writes of the same reason", after-before)
	}

	readyDrive(t, "large", 4)
	eventually(t, "a large drive", placedOn(p, "large"))
	if get(t, p); !meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionPlaced) {
		t.Error("the manager wrote Placed after it placed: that write is the agent's")
	}
	eventually(t, "event", told(p, v1alpha1.ReasonPlaced))
}

func TestWaitingPartitionIsPlacedWhen(t *testing.T) {
	cases := map[string]struct {
		// prevent keeps the partition from drive a; permit undoes it.
		prevent, permit func(*testing.T)
		says            string
	}{
		"the node becomes ready": {
			prevent: func(t *testing.T) {
				alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) {
					meta.SetStatusCondition(&n.Status.Conditions, condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAgentStarting, ""))
				})
			},
			permit: func(t *testing.T) {
				alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) {
					meta.SetStatusCondition(&n.Status.Conditions, condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonAgentReady, ""))
				})
			},
			says: "1 storage node not ready",
		},
		"a partition goes": {
			prevent: func(t *testing.T) {
				p := partition("full", 16)
				create(t, p)
				eventually(t, "partition", placedOn(p, "a"))
			},
			permit: func(t *testing.T) {
				p := partition("full", 16)
				remove(t, p)
				dropFinalizers(t, p)
			},
			says: "1 insufficient space",
		},
		"the owner of the node is uncordoned": {
			prevent: func(t *testing.T) {
				create(t, &v1alpha1.StorageNode{
					ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{v1alpha1.CordonedAnnotation: "true"}},
					Spec:       v1alpha1.StorageNodeSpec{NetworkDomain: v1alpha1.DefaultNetworkDomain},
				})
			},
			permit: func(t *testing.T) {
				annotate(t, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, nil)
			},
			says: "1 storage node cordoned",
		},
		"the drive can be read again": {
			prevent: func(t *testing.T) { mediaOf(t, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed) },
			permit:  func(t *testing.T) { mediaOf(t, metav1.ConditionTrue, v1alpha1.ReasonOwnLabel) },
			says:    "1 drive content not usable",
		},
		"the scan is complete again": {
			prevent: func(t *testing.T) {
				alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) {
					meta.SetStatusCondition(&n.Status.Conditions, condition(v1alpha1.ConditionNVMeInventoryReady, metav1.ConditionFalse, v1alpha1.ReasonScanDegraded, ""))
				})
			},
			permit: func(t *testing.T) {
				alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) {
					meta.SetStatusCondition(&n.Status.Conditions, condition(v1alpha1.ConditionNVMeInventoryReady, metav1.ConditionTrue, v1alpha1.ReasonScanComplete, ""))
				})
			},
			says: "1 inventory of drives incomplete",
		},
		"the drive has a larger gap": {
			prevent: func(t *testing.T) {
				alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) { d.Status.LargestFreeExtent = 1 })
			},
			permit: func(t *testing.T) {
				alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) { d.Status.LargestFreeExtent = 16 * unit })
			},
			says: "1 free space fragmented",
		},
		"the drive is uncordoned": {
			prevent: func(t *testing.T) {
				annotate(t, device("a", "a", "a", 16), map[string]string{v1alpha1.CordonedAnnotation: "true"})
			},
			permit: func(t *testing.T) { annotate(t, device("a", "a", "a", 16), nil) },
			says:   "1 drive cordoned",
		},
		"the other backend leaves the drive": {
			prevent: func(t *testing.T) {
				alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) { d.Status.ActiveBackend = v1alpha1.ActiveBackendSPDK })
			},
			permit: func(t *testing.T) {
				alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) { d.Status.ActiveBackend = v1alpha1.ActiveBackendNone })
			},
			says: "1 held by another backend",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			start(t)
			readyDrive(t, "a", 16)
			tc.prevent(t)
			// The watch brings the change some time after it was written, and what
			// is placed stays placed; so ask until the change has come.
			var p *v1alpha1.NVMePartition
			for i := 0; ; i++ {
				p = partition(fmt.Sprintf("p%d", i), 1)
				create(t, p)
				eventually(t, "a decision", func(ctx context.Context) error {
					if placedOn(p, "a")(ctx) == nil {
						return nil
					}
					return notPlaced(p, tc.says)(ctx)
				})
				if p.Spec.NodeName == "" {
					break
				}
			}
			tc.permit(t)
			eventually(t, "partition", placedOn(p, "a"))
		})
	}
}

// mediaOf sets condition MediaUsable of drive a.
func mediaOf(t *testing.T, status metav1.ConditionStatus, reason string) {
	t.Helper()
	alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) {
		meta.SetStatusCondition(&d.Status.Conditions, condition(v1alpha1.ConditionMediaUsable, status, reason, ""))
	})
}

func TestPlacedPartitionAndItsClaimStayWhatever(t *testing.T) {
	cases := map[string]func(t *testing.T){
		"the drive cannot be read": func(t *testing.T) { mediaOf(t, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed) },
		"the drive shows a foreign signature": func(t *testing.T) {
			mediaOf(t, metav1.ConditionFalse, v1alpha1.ReasonForeignSignature)
		},
		"the drive is gone": func(t *testing.T) {
			alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) {
				meta.SetStatusCondition(&d.Status.Conditions, condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionFalse, v1alpha1.ReasonNotFound, ""))
			})
		},
		"the scan was degraded": func(t *testing.T) {
			alter(t, device("a", "a", "a", 16), func(d *v1alpha1.NVMeDevice) {
				meta.SetStatusCondition(&d.Status.Conditions, condition(v1alpha1.ConditionHardwareAvailable, metav1.ConditionUnknown, v1alpha1.ReasonScanDegraded, ""))
			})
		},
		"the drive is cordoned": func(t *testing.T) {
			annotate(t, device("a", "a", "a", 16), map[string]string{v1alpha1.CordonedAnnotation: "true"})
		},
		"the node is gone": func(t *testing.T) { remove(t, storageNode("a")) },
	}
	for name, happens := range cases {
		t.Run(name, func(t *testing.T) {
			counted := start(t)
			c := readyDrive(t, "a", 16)
			readyDrive(t, "b", 8)
			p := partition("p", 2)
			create(t, p)
			eventually(t, "partition", placedOn(p, "a"))
			happens(t)
			q := partition("q", 1)
			create(t, q)
			eventually(t, "another partition", func(ctx context.Context) error {
				if placedOn(q, "a")(ctx) == nil { // before the watch showed what happened
					if err := server.client.Delete(ctx, q); err != nil {
						return err
					}
					dropFinalizers(t, q)
					q = partition("q", 1)
					create(t, q)
				}
				return placedOn(q, "b")(ctx)
			})
			quiet(t)
			if err := placedOn(p, "a")(t.Context()); err != nil {
				t.Error(err)
			}
			if got := counted.to("/nvmepartitions/p"); len(got) != 1 {
				t.Errorf("writes to the placed partition %v, want its placement alone", got)
			}
			if err := bound(c, metav1.ConditionTrue, v1alpha1.ReasonBound, "a")(t.Context()); err != nil || !c.Status.Active {
				t.Errorf("claim active %v: %v", c.Status.Active, err)
			}
			if err := deviceIs(device("a", "a", "a", 16), v1alpha1.DeviceClaimed, c)(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func annotate(t *testing.T, object client.Object, annotations map[string]string) {
	t.Helper()
	eventually(t, "annotate "+object.GetName(), func(ctx context.Context) error {
		if err := server.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		object.SetAnnotations(annotations)
		return server.client.Update(ctx, object)
	})
}

func TestTopologyIsABoundary(t *testing.T) {
	start(t)
	readyDrive(t, "a", 16)
	readyDrive(t, "b", 8)
	create(t, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.StorageNodeSpec{NetworkDomain: "rack-1"}})
	p := partition("p", 1)
	p.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"rack-1"}}
	create(t, p)
	eventually(t, "partition", placedOn(p, "b"))
	nowhere := partition("nowhere", 1)
	nowhere.Spec.Topology = &v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"rack-2"}}
	create(t, nowhere)
	eventually(t, "partition", notPlaced(nowhere, "2 outside the requested network domains"))
}

func TestDeletedPartitionThatWasNeverPlacedIsLetGo(t *testing.T) {
	start(t)
	p := partition("p", 4)
	create(t, p)
	eventually(t, "partition", notPlaced(p, "no drive is known"))
	remove(t, p)
	eventually(t, "deleted partition", gone(p))
}

func TestDeletedPartitionThatWasPlacedIsTheAgents(t *testing.T) {
	counted := start(t)
	readyDrive(t, "a", 16)
	p := partition("p", 16)
	create(t, p)
	eventually(t, "partition", placedOn(p, "a"))
	remove(t, p)
	next := partition("next", 1)
	create(t, next)
	eventually(t, "the space of a terminating partition", notPlaced(next, "1 insufficient space"))
	if get(t, p); len(p.Finalizers) != 1 || len(counted.to("/nvmepartitions/p")) != 1 {
		t.Errorf("finalizers %v, writes %v: want one of each", p.Finalizers, counted.to("/nvmepartitions/p"))
	}
}

// Fault PL1: a burst finds no stale free space.
func TestBurstNeverOvercommits(t *testing.T) {
	const count = 100
	sizes := map[string]int64{"a": 20, "b": 31, "c": 7}
	counted := start(t)
	for name, units := range sizes {
		readyDrive(t, name, units)
	}
	// Partitions of 1 to 4 units want 250 units of 58.
	var wait sync.WaitGroup
	began := time.Now()
	for i := range count {
		wait.Go(func() {
			p := partition(fmt.Sprintf("p%d", i), int64(1+i%4))
			if err := server.client.Create(t.Context(), p); err != nil {
				t.Errorf("create %s: %v", p.Name, err)
			}
		})
	}
	wait.Wait()
	used, placed := map[string]int64{}, 0
	eventually(t, "a decision for each partition", func(ctx context.Context) error {
		var list v1alpha1.NVMePartitionList
		if err := server.client.List(ctx, &list); err != nil {
			return err
		}
		undecided := 0
		clear(used)
		placed = 0
		for i := range list.Items {
			p := &list.Items[i]
			switch {
			case p.Spec.NodeName != "":
				used[p.Spec.NodeName] += p.Spec.Size / unit
				placed++
			case !meta.IsStatusConditionFalse(p.Status.Conditions, v1alpha1.ConditionPlaced):
				undecided++
			}
		}
		for name, units := range sizes {
			if used[name] > units {
				t.Errorf("drive %s holds %d units of %d", name, used[name], units)
			}
		}
		if undecided > 0 || len(list.Items) != count {
			return fmt.Errorf("%d of %d partitions are undecided", undecided, len(list.Items))
		}
		return nil
	})
	t.Logf("%d partitions decided in %s: %d placed, units used %v of %v", count, time.Since(began).Round(time.Millisecond), placed, used, sizes)
	for name, units := range sizes {
		// The smallest partition takes one unit, so a drive is full in the end.
		if used[name] != units {
			t.Errorf("drive %s holds %d units of %d although smaller partitions wait", name, used[name], units)
		}
	}
	quiet(t)
	placements, refusals := 0, len(counted.to("/status"))
	for i := range count {
		n := len(counted.to(fmt.Sprintf("PATCH /apis/storage.distort.io/v1alpha1/namespaces/%s/nvmepartitions/p%d", namespace, i)))
		if n > 0 {
			placements++
		}
	}
	if placements != count {
		t.Errorf("%d partitions were written, want each of %d", placements, count)
	}
	if got := len(counted.to("/nvmepartitions/")); got != count {
		t.Errorf("%d writes to %d partitions (%d to some status), want one each", got, count, refusals)
	}
}

func TestIdleManagerWritesNothing(t *testing.T) {
	counted := start(t)
	readyDrive(t, "a", 16)
	p, waiting := partition("p", 4), partition("waiting", 99)
	create(t, p, waiting)
	eventually(t, "partition", placedOn(p, "a"))
	eventually(t, "waiting partition", notPlaced(waiting, "insufficient space"))
	eventually(t, "free capacity", freeIs("a", 12))
	quiet(t)
	before := len(counted.to(""))
	// A heartbeat and a status that says nothing new.
	l := lease("a", time.Now())
	get(t, l)
	now := metav1.NowMicro()
	l.Spec.RenewTime = &now
	if err := server.client.Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	alter(t, storageNode("a"), func(n *v1alpha1.RDMAStorageNode) { seen := metav1.Now(); n.Status.LastHeartbeatTime = &seen })
	quiet(t)
	if all := counted.to(""); len(all) != before {
		t.Errorf("idle, yet wrote %v", all[before:])
	}
}
