package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

const (
	poolA = v1alpha1.PoolGUID("1001")
	poolB = v1alpha1.PoolGUID("1002")
	gib   = int64(1) << 30
)

// anOwner declares pools of these sizes in the node of that name.
func anOwner(name string, generation int64, free map[v1alpha1.PoolGUID]int64) *v1alpha1.StorageNode {
	ready := conditions(v1alpha1.ConditionReady)
	ready[0].ObservedGeneration = 1
	o := &v1alpha1.StorageNode{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("owner " + name), Generation: 1, ResourceVersion: "1"},
		Spec:       v1alpha1.StorageNodeSpec{NetworkDomain: "default"},
		Status:     v1alpha1.StorageNodeStatus{Conditions: ready},
	}
	for _, guid := range []v1alpha1.PoolGUID{poolA, poolB} {
		if bytes, has := free[guid]; has {
			o.Spec.AuthoritativePoolGUIDs = append(o.Spec.AuthoritativePoolGUIDs, guid)
			o.Status.Pools = append(o.Status.Pools, v1alpha1.PoolStatus{GUID: guid, FreeBytes: bytes, SampleGeneration: generation, Ready: true})
		}
	}
	return o
}

func aVolume(name string, size int64) *v1alpha1.Volume {
	return &v1alpha1.Volume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
		Spec: v1alpha1.VolumeSpec{
			Type: v1alpha1.VolumeBlock, Capacity: size, Transport: v1alpha1.ProtocolNVMeTCP, Provenance: v1alpha1.ProvenanceDynamic,
		},
	}
}

func TestDecidePools(t *testing.T) {
	request := Request{Pool: true, Size: gib, Transport: v1alpha1.TransportTCP}
	pools := func(name string, change func(*Node), free ...int64) *Node {
		n := node(name)
		for i, bytes := range free {
			n.Pools = append(n.Pools, Pool{GUID: v1alpha1.PoolGUID(name + strconv.Itoa(i)), Free: bytes})
		}
		if change != nil {
			change(n)
		}
		return n
	}
	domain := func(d v1alpha1.DomainName) func(*Node) { return func(n *Node) { n.Domain = d } }
	for name, c := range map[string]struct {
		topology v1alpha1.TopologyRequirement
		nodes    []*Node
		want     v1alpha1.PoolGUID
		message  string
	}{
		"nothing known":       {message: "0/0 pools can hold 1Gi: no pool is known"},
		"exactly enough":      {nodes: []*Node{pools("a", nil, gib)}, want: "a0"},
		"a byte too little":   {nodes: []*Node{pools("a", nil, gib-1)}, message: "0/1 pools can hold 1Gi: 1 insufficient space"},
		"most space":          {nodes: []*Node{pools("a", nil, 2*gib, 4*gib), pools("b", nil, 3*gib)}, want: "a1"},
		"first name":          {nodes: []*Node{pools("b", nil, 2*gib), pools("a", nil, 2*gib)}, want: "a0"},
		"drives do not count": {nodes: []*Node{node("a", aDrive("a1", 9*gib))}, message: "0/0 pools can hold 1Gi: no pool is known"},
		"preferred domain": {
			topology: v1alpha1.TopologyRequirement{Preferred: []v1alpha1.DomainName{"far", "default"}},
			nodes:    []*Node{pools("a", nil, 9*gib), pools("b", domain("far"), 2*gib)}, want: "b0",
		},
		"requisite domain": {
			topology: v1alpha1.TopologyRequirement{Requisite: []v1alpha1.DomainName{"far"}},
			nodes:    []*Node{pools("a", nil, 9*gib)}, message: "0/1 pools can hold 1Gi: 1 outside the requested network domains",
		},
		"not ready":         {nodes: []*Node{pools("a", func(n *Node) { n.PoolRefusal = eligibility.NodeNotReady }, 9*gib)}, message: "0/1 pools can hold 1Gi: 1 storage node not ready"},
		"drives are broken": {nodes: []*Node{pools("a", func(n *Node) { n.Refusal = eligibility.InventoryIncomplete }, 9*gib)}, want: "a0"},
		"silent":            {nodes: []*Node{pools("a", func(n *Node) { n.AliveUntil = now }, 9*gib)}, message: "0/1 pools can hold 1Gi: 1 storage node without heartbeat"},
		"a little ahead":    {nodes: []*Node{pools("a", func(n *Node) { n.Observed = now.Add(30 * time.Second) }, 9*gib)}, want: "a0"},
		"from the future":   {nodes: []*Node{pools("a", func(n *Node) { n.Observed = now.Add(31 * time.Second) }, 9*gib)}, message: "0/1 pools can hold 1Gi: 1 storage node's clock ahead"},
		"no portal":         {nodes: []*Node{pools("a", func(n *Node) { n.Transports = nil }, 9*gib)}, message: "0/1 pools can hold 1Gi: 1 no tcp portal"},
		"two reasons": {nodes: []*Node{pools("a", func(n *Node) { n.Pools[0].Refusal, n.Pools[1].Full = eligibility.PoolNotReady, true }, 9*gib, 9*gib)},
			message: "0/2 pools can hold 1Gi: 1 pool not ready, 1 too many new volumes"},
	} {
		r := request
		r.Topology = c.topology
		switch got := Decide(now, r, c.nodes); {
		case got == nil && c.want == "":
			if said := Message(r, Explain(now, r, c.nodes)); said != c.message {
				t.Errorf("%s: %q, want %q", name, said, c.message)
			}
		case got == nil, got.Pool != c.want:
			t.Errorf("%s: %+v, want pool %q", name, got, c.want)
		}
	}
}

func TestSharePendsUntilASampleContainsIt(t *testing.T) {
	full := zvolSize(gib, 0)
	for name, c := range map[string]struct {
		change     func(*v1alpha1.Volume)
		generation int64
		want       int64
	}{
		"not made":                 {func(*v1alpha1.Volume) {}, 9, full},
		"made and not accounted":   {func(v *v1alpha1.Volume) { v.Status.ActualCapacity = gib }, 9, full},
		"accounted, no sample yet": {func(v *v1alpha1.Volume) { v.Status.ActualCapacity, v.Status.AccountedGeneration = gib, 9 }, 8, full},
		"in the sample":            {func(v *v1alpha1.Volume) { v.Status.ActualCapacity, v.Status.AccountedGeneration = gib, 9 }, 9, 0},
		"in a later sample":        {func(v *v1alpha1.Volume) { v.Status.ActualCapacity, v.Status.AccountedGeneration = gib, 9 }, 12, 0},
		"asked to grow": {func(v *v1alpha1.Volume) {
			v.Spec.Capacity, v.Status.ActualCapacity, v.Status.AccountedGeneration = 2*gib, gib, 9
		}, 9, zvolSize(2*gib, 0) - full},
		"grown": {func(v *v1alpha1.Volume) {
			v.Spec.Capacity, v.Status.ActualCapacity, v.Status.AccountedGeneration = 2*gib, 2*gib, 9
		}, 9, 0},
		"growth that was withdrawn":   {func(v *v1alpha1.Volume) { v.Status.ActualCapacity, v.Status.AccountedGeneration = 2*gib, 9 }, 9, 0},
		"destroyed, still to be seen": {func(v *v1alpha1.Volume) { v.Status.State = v1alpha1.VolumeDestroyed }, 9, 0},
	} {
		v := aVolume("v", gib)
		c.change(v)
		if got := shareOf(v).pending(c.generation); got != c.want {
			t.Errorf("%s: %d bytes are pending, want %d", name, got, c.want)
		}
	}
}

// poolLedger is a Ledger with a ready node n1 that owns pools of these sizes.
func poolLedger(free map[v1alpha1.PoolGUID]int64) *Ledger {
	l := newLedger(fixed)
	l.nodeSeen(aNode("n1"))
	l.leaseSeen(aLease("n1", now))
	l.ownerSeen(anOwner("n1", 1, free))
	return l
}

// reservePools writes the plan of n1, as package capacity does.
func reservePools(t *testing.T, l *Ledger) *v1alpha1.StorageNode {
	t.Helper()
	plan, known := l.PlanPools("n1")
	if !known {
		t.Fatal("no plan for n1")
	}
	o := plan.Owner.DeepCopy()
	version, _ := strconv.Atoi(o.ResourceVersion)
	o.ResourceVersion, o.Status.Reservations = strconv.Itoa(version+1), plan.Reservations
	l.WroteOwner(o)
	return o
}

func TestVolumeIsReservedThenPlacedThenPartOfTheSample(t *testing.T) {
	l := poolLedger(map[v1alpha1.PoolGUID]int64{poolA: 3 * gib})
	v, other := aVolume("v1", 2*gib), aVolume("v2", 2*gib)
	if attempt := l.PlaceVolume(v, nil); attempt.Placement != nil || attempt.Refusal != "" {
		t.Fatalf("before the reservation: %+v", attempt)
	}
	if attempt := l.PlaceVolume(other, nil); attempt.Refusal == "" {
		t.Fatalf("the rest is too small for another one: %+v", attempt)
	}
	reservePools(t, l)
	attempt := l.PlaceVolume(v, nil)
	if diff := cmp.Diff(&Placement{DriveID: DriveID{Node: "n1"}, Pool: poolA, Domain: "default"}, attempt.Placement); diff != "" {
		t.Fatalf("placement (-want +got):\n%s", diff)
	}
	v.Spec.OwnerNode, v.Spec.PoolGUID, v.Spec.NetworkDomain = "n1", poolA, "default"
	l.volumeSeen(v)
	v = v.DeepCopy()
	v.Status.ActualCapacity, v.Status.AccountedGeneration = 2*gib, 2
	l.volumeSeen(v)
	if plan, _ := l.PlanPools("n1"); len(plan.Reservations) != 1 || plan.Due() {
		t.Errorf("reservations before the sample: %+v", plan.Reservations)
	}
	sampled := reservePools(t, l).DeepCopy()
	sampled.ResourceVersion = "9"
	sampled.Status.Pools[0].SampleGeneration, sampled.Status.Pools[0].FreeBytes = 2, 3*gib-zvolSize(2*gib, 0)
	l.ownerSeen(sampled)
	if plan, _ := l.PlanPools("n1"); len(plan.Reservations) != 0 || !plan.Due() {
		t.Errorf("reservations after the sample: %+v", plan.Reservations)
	}
	if got := l.snapshot[0].Pools[0].Free; got != 3*gib-zvolSize(2*gib, 0) {
		t.Errorf("%d bytes are free: something is subtracted twice, or not at all", got)
	}
}

func TestPoolThatTwoNodesDeclareIsNotUsed(t *testing.T) {
	l := poolLedger(map[v1alpha1.PoolGUID]int64{poolA: 3 * gib})
	l.nodeSeen(aNode("n2"))
	l.leaseSeen(aLease("n2", now))
	l.ownerSeen(anOwner("n2", 1, map[v1alpha1.PoolGUID]int64{poolA: 3 * gib}))
	if got := l.PlaceVolume(aVolume("v", gib), nil).Refusal; got != "0/2 pools can hold 1042Mi: 2 pool declared by several storage nodes" {
		t.Errorf("refusal = %q", got)
	}
	l.ownerGone(&v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	if attempt := l.PlaceVolume(aVolume("v", gib), nil); attempt.Refusal != "" {
		t.Errorf("after the other one is gone: %q", attempt.Refusal)
	}
}

func TestVolumesThatThisVersionCannotPlace(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Volume){
		"dataset": func(v *v1alpha1.Volume) { v.Spec.Type = v1alpha1.VolumeFilesystem },
		"import":  func(v *v1alpha1.Volume) { v.Spec.Provenance = v1alpha1.ProvenanceImported },
		"restore": func(v *v1alpha1.Volume) { v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: "s"} },
		"clone": func(v *v1alpha1.Volume) {
			v.Spec.SourceVolume = &v1alpha1.VolumeReference{Kind: v1alpha1.KindVolume, Name: "s"}
		},
	} {
		v := aVolume("v", gib)
		change(v)
		if attempt := poolLedger(map[v1alpha1.PoolGUID]int64{poolA: 9 * gib}).PlaceVolume(v, nil); attempt.Refusal == "" {
			t.Errorf("%s: %+v", name, attempt)
		}
	}
}

// A volume that is made of another one, or of a snapshot, goes to its pool or nowhere.
func TestCopiesStayOnThePoolOfTheirSource(t *testing.T) {
	ledger := func() *Ledger {
		l := poolLedger(map[v1alpha1.PoolGUID]int64{poolA: 2 * gib, poolB: 9 * gib})
		source := aVolume("source", gib)
		source.Spec.OwnerNode, source.Spec.PoolGUID, source.Spec.NetworkDomain = "n1", poolA, "default"
		source.Status.ActualCapacity, source.Status.AccountedGeneration = gib, 1
		l.volumeSeen(source)
		return l
	}
	snapshot := &v1alpha1.Snapshot{ObjectMeta: metav1.ObjectMeta{Name: "s", UID: "s"}, Spec: v1alpha1.SnapshotSpec{NodeName: "n1"}}
	taken := snapshot.DeepCopy()
	taken.Status.PoolGUID = poolA
	restored := func(v *v1alpha1.Volume) { v.Spec.SourceSnapshot = &v1alpha1.SnapshotReference{Name: "s", UID: "s"} }
	copied := func(uid types.UID) func(*v1alpha1.Volume) {
		return func(v *v1alpha1.Volume) {
			v.Spec.SourceVolume = &v1alpha1.VolumeReference{Kind: v1alpha1.KindVolume, Name: "source", UID: uid}
		}
	}
	source := aVolume("source", gib).UID
	for name, c := range map[string]struct {
		change   func(*v1alpha1.Volume)
		size     int64
		snapshot *v1alpha1.Snapshot
		refusal  string
	}{
		"made anew, to the largest pool": {func(*v1alpha1.Volume) {}, gib, nil, ""},
		"restored":                       {restored, gib, taken, ""},
		"copied":                         {copied(source), gib, nil, ""},
		"restored, too large":            {restored, 3 * gib, taken, "0/2 pools can hold 3122Mi: 1 insufficient space, 1 not the pool of the source"},
		"of a snapshot that is not":      {restored, gib, nil, "there is no Snapshot s with UID s"},
		"of one that is not taken":       {restored, gib, snapshot, "Snapshot s is not taken yet"},
		"of a volume of another life":    {copied("other"), gib, nil, "there is no Volume source with UID other on a pool"},
	} {
		l, v := ledger(), aVolume("v", c.size)
		c.change(v)
		if attempt := l.PlaceVolume(v, c.snapshot); attempt.Refusal != c.refusal {
			t.Errorf("%s: refusal %q, want %q", name, attempt.Refusal, c.refusal)
			continue
		}
		if c.refusal != "" {
			continue
		}
		want := poolA
		if v.Spec.SourceSnapshot == nil && v.Spec.SourceVolume == nil {
			want = poolB
		}
		if got := l.pools.decided[v.UID].pool; got != (PoolID{"n1", want}) {
			t.Errorf("%s: placed on %+v, want %s", name, got, want)
		}
	}
}

// market is an API server with one StorageNode, the agent of its node, and two
// managers whose watches lag. What happens next is chosen at random.
type market struct {
	t        *testing.T
	rand     *rand.Rand
	total    int64
	version  int
	owner    *v1alpha1.StorageNode
	volumes  map[string]*v1alpha1.Volume
	managers [2]*contender
	made     int // volumes so far

	// The agent: what it has made and not told, and a look that is under way.
	used   map[string]int64
	begun  int64
	look   *v1alpha1.PoolStatus
	lookAt string // resourceVersion that the look began with
}

// contender is a manager without leader election.
type contender struct {
	ledger *Ledger
	cache  map[string]*v1alpha1.Volume
	events []func()
}

func newMarket(t *testing.T, seed uint64, total int64) *market {
	m := &market{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), total: total, version: 1, volumes: map[string]*v1alpha1.Volume{}, used: map[string]int64{},
		owner: anOwner("n1", 1, map[v1alpha1.PoolGUID]int64{poolA: total}), begun: 1,
	}
	for i := range m.managers {
		m.managers[i] = &contender{ledger: poolLedger(map[v1alpha1.PoolGUID]int64{poolA: total}), cache: map[string]*v1alpha1.Volume{}}
	}
	return m
}

func (m *market) next() string {
	m.version++
	return strconv.Itoa(m.version)
}

// tell sends an event to both managers.
func (m *market) tell(event func(*contender)) {
	for _, c := range m.managers {
		c.events = append(c.events, func() { event(c) })
	}
}

func (m *market) storeVolume(v *v1alpha1.Volume) {
	v.ResourceVersion = m.next()
	m.volumes[v.Name] = v
	seen := v.DeepCopy()
	m.tell(func(c *contender) { c.cache[seen.Name] = seen; c.ledger.volumeSeen(seen) })
}

func (m *market) storeOwner(o *v1alpha1.StorageNode) {
	o.ResourceVersion = m.next()
	m.owner = o
	seen := o.DeepCopy()
	m.tell(func(c *contender) { c.ledger.ownerSeen(seen) })
}

func (m *market) removeVolume(v *v1alpha1.Volume) {
	delete(m.volumes, v.Name)
	m.tell(func(c *contender) { delete(c.cache, v.Name); c.ledger.volumeGone(v) })
}

// pick is a random one of the volumes that are so.
func (m *market) pick(volumes map[string]*v1alpha1.Volume, is func(*v1alpha1.Volume) bool) *v1alpha1.Volume {
	var names []string
	for name, v := range volumes {
		if is(v) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return volumes[names[m.rand.IntN(len(names))]]
}

func (m *market) create() {
	m.made++
	v := aVolume(fmt.Sprintf("v%d", m.made), int64(1+m.rand.IntN(4))*64*unit)
	m.storeVolume(v)
}

// place is a pass of a manager over a volume, as far as its cache shows it.
func (m *market) place(c *contender) {
	v := m.pick(c.cache, func(v *v1alpha1.Volume) bool { return v.Spec.OwnerNode == "" })
	if v == nil {
		return
	}
	attempt := c.ledger.PlaceVolume(v, nil)
	now := m.volumes[v.Name]
	if attempt.Placement == nil || now == nil || now.ResourceVersion != v.ResourceVersion {
		return
	}
	placed := now.DeepCopy()
	attempt.Placement.put(placed)
	m.storeVolume(placed)
	c.ledger.Sent(v.UID, v.ResourceVersion)
}

// reserve is a pass of a manager over the reservations.
func (m *market) reserve(c *contender) {
	for _, r := range c.ledger.UnsettledVolumes("n1") {
		if v := m.volumes[r.Name]; v == nil || v.UID != r.UID {
			c.ledger.GoneVolume(r.UID)
		}
	}
	plan, known := c.ledger.PlanPools("n1")
	if !known || !plan.Due() || plan.Owner.ResourceVersion != m.owner.ResourceVersion {
		return
	}
	o := m.owner.DeepCopy()
	o.Status.Reservations = plan.Reservations
	m.storeOwner(o)
	c.ledger.WroteOwner(o.DeepCopy())
}

func placedVolume(v *v1alpha1.Volume) bool { return v.Spec.OwnerNode != "" }

// agent makes, tells, samples, publishes or destroys.
func (m *market) agent() {
	switch m.rand.IntN(5) {
	case 0: // make a zvol
		if v := m.pick(m.volumes, func(v *v1alpha1.Volume) bool { _, made := m.used[v.Name]; return placedVolume(v) && !made }); v != nil {
			m.used[v.Name] = zvolSize(v.Spec.Capacity, 0)
		}
	case 1: // tell that it is there
		v := m.pick(m.volumes, func(v *v1alpha1.Volume) bool { _, made := m.used[v.Name]; return made && v.Status.ActualCapacity == 0 })
		if v != nil {
			told := v.DeepCopy()
			told.Status.ActualCapacity, told.Status.AccountedGeneration = v.Spec.Capacity, m.begun+1
			m.storeVolume(told)
		}
	case 2: // begin a look
		m.begun++
		m.look, m.lookAt = &v1alpha1.PoolStatus{GUID: poolA, FreeBytes: m.free(), SampleGeneration: m.begun, Ready: true}, m.owner.ResourceVersion
	case 3: // publish it
		if m.look != nil && m.lookAt == m.owner.ResourceVersion {
			o := m.owner.DeepCopy()
			o.Status.Pools = []v1alpha1.PoolStatus{*m.look}
			m.storeOwner(o)
		}
		m.look = nil
	case 4: // destroy a zvol, and let its object go
		if v := m.pick(m.volumes, placedVolume); v != nil && m.rand.IntN(3) == 0 {
			delete(m.used, v.Name)
			m.removeVolume(v)
		}
	}
}

func (m *market) free() int64 {
	left := m.total
	for _, bytes := range m.used {
		left -= bytes
	}
	return left
}

// check fails when more is placed than there is.
func (m *market) check() {
	m.t.Helper()
	promised := int64(0)
	for _, v := range m.volumes {
		if placedVolume(v) {
			promised += zvolSize(v.Spec.Capacity, 0)
		}
	}
	if promised > m.total {
		m.t.Fatalf("%d bytes are promised of %d", promised, m.total)
	}
}

func TestTwoManagersNeverPromiseMoreOfAPoolThanThereIs(t *testing.T) {
	busy := 0
	for seed := range uint64(60) {
		m := newMarket(t, seed, 10*gib)
		for range 2500 {
			c := m.managers[m.rand.IntN(2)]
			switch m.rand.IntN(8) {
			case 0:
				if m.made < 60 {
					m.create()
				}
			case 1, 2, 3:
				if len(c.events) > 0 {
					c.events[0]()
					c.events = c.events[1:]
				}
			case 4:
				m.place(c)
			case 5:
				m.reserve(c)
			default:
				m.agent()
			}
			m.check()
		}
		if m.free() < 3*gib {
			busy++
		}
		m.settle()
	}
	if busy < 10 {
		t.Errorf("only %d of 60 pools were ever nearly full: the test proves little", busy)
	}
}

// settle lets everybody do what is left, and checks that nothing is lost: no volume
// waits that fits, and nothing is reserved that the sample contains.
func (m *market) settle() {
	m.t.Helper()
	for range 400 {
		for _, c := range m.managers {
			for len(c.events) > 0 {
				c.events[0]()
				c.events = c.events[1:]
			}
			for range 4 {
				m.place(c)
			}
			m.reserve(c)
		}
		for _, v := range m.volumes {
			if placedVolume(v) && v.Status.ActualCapacity == 0 {
				m.used[v.Name] = zvolSize(v.Spec.Capacity, 0)
				told := v.DeepCopy()
				told.Status.ActualCapacity, told.Status.AccountedGeneration = v.Spec.Capacity, m.begun+1
				m.storeVolume(told)
			}
		}
		m.begun++
		if sample := (v1alpha1.PoolStatus{GUID: poolA, FreeBytes: m.free(), SampleGeneration: m.begun, Ready: true}); m.rand.IntN(4) == 0 {
			o := m.owner.DeepCopy()
			o.Status.Pools = []v1alpha1.PoolStatus{sample}
			m.storeOwner(o)
		}
		m.check()
	}
	for _, v := range m.volumes {
		if !placedVolume(v) && zvolSize(v.Spec.Capacity, 0) <= m.free() {
			m.t.Fatalf("volume %s of %d bytes waits although %d are free", v.Name, v.Spec.Capacity, m.free())
		}
	}
	if n := len(m.owner.Status.Reservations); n > 0 {
		m.t.Fatalf("%d reservations are left that the sample contains", n)
	}
}
