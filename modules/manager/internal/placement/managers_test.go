package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
)

// apiServer is a model of one: objects with versions, writes that compare and
// swap, and a log of events for each kind.
type apiServer struct {
	version         int
	devices         map[string]*v1alpha1.NVMeDevice
	partitions      map[string]*v1alpha1.NVMePartition
	deviceEvents    []*v1alpha1.NVMeDevice
	partitionEvents []partitionEvent
}

type partitionEvent struct {
	partition *v1alpha1.NVMePartition
	gone      bool
}

func (s *apiServer) next() string { s.version++; return strconv.Itoa(s.version) }

func (s *apiServer) putDevice(d *v1alpha1.NVMeDevice) *v1alpha1.NVMeDevice {
	d = d.DeepCopy()
	d.ResourceVersion = s.next()
	s.devices[d.Name] = d
	s.deviceEvents = append(s.deviceEvents, d)
	return d
}

func (s *apiServer) putPartition(p *v1alpha1.NVMePartition) {
	p = p.DeepCopy()
	p.ResourceVersion = s.next()
	s.partitions[p.Name] = p
	s.partitionEvents = append(s.partitionEvents, partitionEvent{partition: p})
}

func (s *apiServer) dropPartition(p *v1alpha1.NVMePartition) {
	delete(s.partitions, p.Name)
	s.partitionEvents = append(s.partitionEvents, partitionEvent{p, true})
}

// process is a model of a manager: a Ledger that sees the events late, each kind
// at its own pace, two queues, and requests on their way.
type process struct {
	server            *apiServer
	ledger            *Ledger
	devices, seen     int // events of devices and partitions that were delivered
	cache             map[string]*v1alpha1.NVMePartition
	place, write      map[string]bool
	requests          []request
	beingWritten      map[string]bool
	beingPlaced       map[string]bool
	reservationWrites int
}

type request struct {
	send   func()
	answer func()
}

func newProcess(s *apiServer) *process {
	m := &process{
		server: s, cache: map[string]*v1alpha1.NVMePartition{}, place: map[string]bool{}, write: map[string]bool{},
		beingWritten: map[string]bool{}, beingPlaced: map[string]bool{},
		ledger: NewLedger(LedgerOptions{Clock: fixed, Heartbeats: heartbeat.NewTracker(fixed), DefaultDomain: "default"}),
	}
	m.ledger.Subscribe(func(c Change) {
		for _, d := range slices.Concat(c.Reserve, c.Devices) {
			m.write[d] = true
		}
		keys := slices.Clone(c.Decide)
		if c.Room {
			keys = append(keys, m.ledger.Waiting()...)
		}
		for _, key := range keys {
			m.place[key.Name] = true
		}
	})
	for _, name := range slices.Sorted(maps.Keys(s.devices)) {
		d := s.devices[name]
		m.ledger.claimSeen(aClaim(name, d.Spec.NodeName))
		m.ledger.nodeSeen(aNode(d.Spec.NodeName))
		m.ledger.leaseSeen(aLease(d.Spec.NodeName, now))
		m.ledger.deviceSeen(d)
	}
	m.devices, m.seen = len(s.deviceEvents), len(s.partitionEvents)
	for _, name := range slices.Sorted(maps.Keys(s.partitions)) {
		m.show(s.partitions[name])
	}
	return m
}

func (m *process) show(p *v1alpha1.NVMePartition) {
	m.cache[p.Name] = p
	m.ledger.partitionSeen(p)
	if p.Spec.NodeName == "" {
		m.place[p.Name] = true
	}
}

// deliver brings one event of each kind at most.
func (m *process) deliver(device, partition bool) (more bool) {
	if device && m.devices < len(m.server.deviceEvents) {
		m.ledger.deviceSeen(m.server.deviceEvents[m.devices])
		m.devices++
		more = true
	}
	if partition && m.seen < len(m.server.partitionEvents) {
		e := m.server.partitionEvents[m.seen]
		m.seen++
		more = true
		if e.gone {
			delete(m.cache, e.partition.Name)
			m.ledger.partitionGone(e.partition)
		} else {
			m.show(e.partition)
		}
	}
	return more
}

// reconcilePartition is what the Reconciler of this package does.
func (m *process) reconcilePartition(name string) {
	delete(m.place, name)
	p := m.cache[name]
	if p == nil || p.Spec.NodeName != "" {
		return
	}
	attempt := m.ledger.Place(p)
	if attempt.Placement == nil {
		return
	}
	m.beingPlaced[name] = true
	wrote := false
	m.requests = append(m.requests, request{
		send: func() {
			if now := m.server.partitions[name]; now != nil && now.ResourceVersion == p.ResourceVersion {
				m.server.putPartition(placed(p, attempt.Placement, ""))
				wrote = true
			}
		},
		answer: func() {
			delete(m.beingPlaced, name)
			if wrote {
				m.ledger.Sent(p.UID, p.ResourceVersion)
			}
		},
	})
}

// reconcileDevice is what package capacity does.
func (m *process) reconcileDevice(name string) {
	delete(m.write, name)
	for _, ref := range m.ledger.Unsettled(name) {
		cached, live := m.cache[ref.Name], m.server.partitions[ref.Name]
		if (cached == nil || cached.UID != ref.UID) && (live == nil || live.UID != ref.UID) {
			m.ledger.Gone(ref.UID)
		}
	}
	plan, known := m.ledger.Plan(name)
	if !known || !plan.Due() {
		return
	}
	m.beingWritten[name] = true
	var answered *v1alpha1.NVMeDevice
	m.requests = append(m.requests, request{
		send: func() {
			if m.server.devices[name].ResourceVersion == plan.Device.ResourceVersion {
				answered = m.server.putDevice(planned(plan))
				m.reservationWrites++
			}
		},
		answer: func() {
			delete(m.beingWritten, name)
			if answered != nil {
				m.ledger.Wrote(answered)
			}
		},
	})
}

// step does one thing at random; false when there was nothing to do.
func (m *process) step(random *rand.Rand) bool {
	switch random.IntN(5) {
	case 0:
		return m.deliver(true, false)
	case 1:
		return m.deliver(false, true)
	case 2:
		for _, name := range slices.Sorted(maps.Keys(m.place)) {
			if !m.beingPlaced[name] {
				m.reconcilePartition(name)
				return true
			}
		}
	case 3:
		for _, name := range slices.Sorted(maps.Keys(m.write)) {
			if !m.beingWritten[name] {
				m.reconcileDevice(name)
				return true
			}
		}
	case 4:
		if len(m.requests) > 0 {
			i := random.IntN(len(m.requests))
			r := m.requests[i]
			m.requests = slices.Delete(m.requests, i, i+1)
			r.send()
			r.answer()
			return true
		}
	}
	return false
}

func (m *process) idle() bool {
	return m.devices == len(m.server.deviceEvents) && m.seen == len(m.server.partitionEvents) &&
		len(m.place) == 0 && len(m.write) == 0 && len(m.requests) == 0
}

// TestManagersNeverOvercommit lets two managers without leader election work on
// the same drives, in every order of events and requests that a seed gives. They
// die between any two steps, with requests on their way that arrive long after.
func TestManagersNeverOvercommit(t *testing.T) {
	sizes := map[string]int64{"d1": 20 * unit, "d2": 31 * unit, "d3": 7 * unit}
	deaths, late, writes, created := 0, 0, 0, 0
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 3))
		s := &apiServer{devices: map[string]*v1alpha1.NVMeDevice{}, partitions: map[string]*v1alpha1.NVMePartition{}}
		for i, name := range slices.Sorted(maps.Keys(sizes)) {
			s.putDevice(aDevice(name, fmt.Sprintf("n%d", i+1), sizes[name]))
		}
		managers := []*process{newProcess(s), newProcess(s)}
		var zombies []request // of managers that died
		check := func() {
			used := map[string]int64{}
			for _, p := range s.partitions {
				used[p.Spec.ParentDeviceSerialNumber] += p.Spec.Size
			}
			for name, size := range sizes {
				if used["serial-"+name] > size {
					t.Fatalf("seed %d: drive %s holds %d units of %d", seed, name, used["serial-"+name]/unit, size/unit)
				}
			}
		}
		made := 0
		for step := 0; step < 2000; step++ {
			switch n := random.IntN(100); {
			case n < 4 && made < 60:
				p := aPartition(fmt.Sprintf("p%d", made), (1+random.Int64N(4))*unit)
				made++
				s.putPartition(p)
			case n < 6 && len(s.partitions) > 0: // one is deleted, placed or not
				names := slices.Sorted(maps.Keys(s.partitions))
				s.dropPartition(s.partitions[names[random.IntN(len(names))]])
			case n < 7 && len(s.devices) > 0: // the agent writes to a drive
				s.putDevice(s.devices[fmt.Sprintf("d%d", 1+random.IntN(3))])
			case n < 8:
				i := random.IntN(2)
				writes += managers[i].reservationWrites
				zombies = append(zombies, managers[i].requests...)
				managers[i] = newProcess(s)
				deaths++
			case n < 10 && len(zombies) > 0:
				zombies[0].send()
				zombies = zombies[1:]
				late++
			default:
				managers[random.IntN(2)].step(random)
			}
			check()
		}
		created += made
		for idle := false; !idle; idle = managers[0].idle() && managers[1].idle() {
			for len(zombies) > 0 {
				zombies[0].send()
				zombies = zombies[1:]
			}
			managers[random.IntN(2)].step(random)
			check()
		}
		writes += managers[0].reservationWrites + managers[1].reservationWrites
		settled(t, seed, s)
	}
	t.Logf("%d partitions, %d deaths, %d late requests, %d writes of reservations", created, deaths, late, writes)
	if deaths == 0 || late == 0 {
		t.Error("no manager died with requests on their way")
	}
}

// settled checks that the drives reserve for exactly the partitions that are
// placed on them, and that none waits that would fit.
func settled(t *testing.T, seed uint64, s *apiServer) {
	t.Helper()
	fresh := newProcess(s)
	for name, d := range s.devices {
		var want []v1alpha1.Reservation
		left := d.Spec.TotalCapacity
		for _, p := range s.partitions {
			if p.Spec.ParentDeviceSerialNumber == d.Spec.SerialNumber {
				want = append(want, aReservation(p.Name, p.Spec.Size))
				left -= p.Spec.Size
			}
		}
		slices.SortFunc(want, func(a, b v1alpha1.Reservation) int {
			return compareKeys(client.ObjectKey{Name: a.Name}, client.ObjectKey{Name: b.Name})
		})
		if !slices.Equal(want, d.Status.Reservations) || *d.Status.FreeCapacity != left {
			t.Fatalf("seed %d: drive %s reserves %+v with %d bytes free, want %+v and %d", seed, name, d.Status.Reservations, *d.Status.FreeCapacity, want, left)
		}
	}
	for _, p := range s.partitions {
		if p.Spec.NodeName == "" {
			if attempt := fresh.ledger.Place(p); attempt.Refusal == "" {
				t.Fatalf("seed %d: partition %s waits although there is room: %+v", seed, p.Name, attempt)
			}
		}
	}
}
