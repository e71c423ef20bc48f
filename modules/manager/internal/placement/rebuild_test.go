package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Whatever happens to drives, claims and volumes, the snapshot is what deriving all of
// it anew makes, although an event derives its own drive only.
func TestTheSnapshotIsWhatDerivingAllOfItMakes(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		l, version, volumes := newLedger(fixed, 9*unit, 9*unit), 10, map[string]*v1alpha1.NVMePartition{}
		pick := func() (device, node string) {
			return fmt.Sprintf("d%d", 1+random.IntN(4)), fmt.Sprintf("n%d", 1+random.IntN(2))
		}
		steps := map[string]func(){
			"device": func() {
				name, node := pick()
				d := aDevice(name, node, int64(5+random.IntN(5))*unit)
				if random.IntN(4) == 0 {
					d.Spec.SerialNumber = "serial-d1"
				}
				version++
				d.ResourceVersion = fmt.Sprint(version)
				l.deviceSeen(d)
			},
			"device gone": func() {
				name, node := pick()
				l.deviceGone(aDevice(name, node, unit))
			},
			"claim": func() {
				c := aClaim(pick())
				if random.IntN(4) == 0 {
					c.DeletionTimestamp = ptr.To(metav1.Now())
				}
				l.claimSeen(c)
			},
			"close":      func() { l.CloseClaim(aClaim(pick())) },
			"claim gone": func() { l.claimGone(aClaim(pick())) },
			"place": func() {
				p := aPartition(fmt.Sprintf("p%d", random.IntN(9)), int64(1+random.IntN(3))*unit)
				volumes[p.Name] = p
				if d := l.Place(p); d.Placement != nil {
					l.partitionSeen(placed(p, d.Placement, "2"))
				}
			},
			"reserve": func() {
				for _, uid := range l.decidedFor {
					for _, d := range uid {
						reserve(t, l, d.device)
						return
					}
				}
			},
			"volume gone": func() {
				for _, p := range volumes {
					delete(volumes, p.Name)
					l.partitionGone(p)
					return
				}
			},
		}
		names := []string{"device", "device gone", "claim", "close", "claim gone", "place", "place", "reserve", "volume gone"}
		for step := range 60 {
			name := names[random.IntN(len(names))]
			steps[name]()
			before := make([]*Node, len(l.snapshot))
			copy(before, l.snapshot)
			for _, node := range []string{"n1", "n2"} {
				l.rebuild(node)
			}
			if diff := cmp.Diff(l.snapshot, before); diff != "" {
				t.Fatalf("seed %d, step %d, %s (-anew +snapshot):\n%s", seed, step, name, diff)
			}
		}
	}
}

// BenchmarkSeen is what an event of one volume costs a manager that knows so many
// others on its node. It is to be the same: they are on other drives.
func BenchmarkSeen(b *testing.B) {
	const drives = 80
	for _, volumes := range []int{100, 10000} {
		b.Run(fmt.Sprintf("volumes=%d", volumes), func(b *testing.B) {
			l := newLedger(fixed)
			for d := range drives {
				name := fmt.Sprintf("d%d", d)
				l.deviceSeen(aDevice(name, "n1", 1000*unit))
				l.claimSeen(aClaim(name, "n1"))
			}
			at := func(i int) *v1alpha1.NVMePartition {
				p, device := aPartition(fmt.Sprintf("p%d", i), unit), aDevice(fmt.Sprintf("d%d", i%drives), "n1", 0)
				return placed(p, &Placement{DriveID: driveOf(device), Claim: *device.Status.ClaimRef}, "1")
			}
			// The first drive has two volumes, whatever the others have.
			for i := range volumes {
				if i%drives != 0 || i < 2*drives {
					l.partitionSeen(at(i))
				}
			}
			p := at(0)
			for b.Loop() {
				l.partitionSeen(p)
			}
		})
	}
}
