package placement

import (
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/capacity"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/drive"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
)

// Ledger is the inventory and what is reserved of it, in memory and kept by
// watch events. Free space is a drive's allocatable size minus the rounded
// sizes of all partitions assigned to it, in every namespace, terminating ones
// included.
type Ledger struct {
	clock         func() time.Time
	beats         *heartbeat.Tracker
	defaultDomain v1alpha1.DomainName
	live          client.Reader

	catchUp  sync.Mutex
	caughtUp bool

	mu            sync.Mutex
	registrations []toolscache.ResourceEventHandlerRegistration
	devices       map[string]*v1alpha1.NVMeDevice
	byNode        index
	bySerial      index
	claims        map[types.UID]*v1alpha1.NVMeDeviceClaim
	closed        map[types.UID]bool
	nodes         map[string]*v1alpha1.RDMAStorageNode
	owners        map[string]*v1alpha1.StorageNode
	held          map[types.UID]*reservation
	byDrive       map[DriveID]map[types.UID]*reservation
	waiting       map[types.UID]client.ObjectKey
	snapshot      []*Node // by name
	subscribers   map[int]func(Change)
	nextID        int
}

// LedgerOptions are what a Ledger needs; all are required.
type LedgerOptions struct {
	// Clock is time.Now outside tests.
	Clock func() time.Time
	// Heartbeats of the storage nodes.
	Heartbeats *heartbeat.Tracker
	// DefaultDomain is the network domain of a node that no StorageNode describes.
	DefaultDomain v1alpha1.DomainName
	// Live reads from the API server and not from a cache.
	Live client.Reader
}

// NewLedger makes an empty Ledger.
func NewLedger(o LedgerOptions) *Ledger {
	return &Ledger{
		clock: o.Clock, beats: o.Heartbeats, defaultDomain: o.DefaultDomain, live: o.Live,
		devices: map[string]*v1alpha1.NVMeDevice{}, byNode: index{}, bySerial: index{},
		claims: map[types.UID]*v1alpha1.NVMeDeviceClaim{}, closed: map[types.UID]bool{},
		nodes: map[string]*v1alpha1.RDMAStorageNode{}, owners: map[string]*v1alpha1.StorageNode{},
		held: map[types.UID]*reservation{}, byDrive: map[DriveID]map[types.UID]*reservation{},
		waiting: map[types.UID]client.ObjectKey{}, subscribers: map[int]func(Change){},
	}
}

// reservation is the space of one partition on one drive.
type reservation struct {
	key     client.ObjectKey
	drive   DriveID
	claim   types.UID
	backend v1alpha1.TargetBackend
	size    int64
	// assumed is what this process decided and its watch has not shown yet; nil
	// for a placement that was read.
	assumed *assumption
}

// assumption is a decision on its way to the API server.
type assumption struct {
	placement Placement
	// version is the resourceVersion of the partition that the patch goes by:
	// whatever the watch shows under another one without a placement proves that
	// the patch did not land.
	version string
	// sent is true once the API server took the patch.
	sent bool
}

// index is a set of device names by some key.
type index map[string]map[string]struct{}

func (i index) add(key, name string) {
	if i[key] == nil {
		i[key] = map[string]struct{}{}
	}
	i[key][name] = struct{}{}
}

func (i index) remove(key, name string) {
	delete(i[key], name)
	if len(i[key]) == 0 {
		delete(i, key)
	}
}

func (i index) names(key string) []string {
	names := make([]string, 0, len(i[key]))
	for name := range i[key] {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// reserve records a reservation in place of the partition's former one.
func (l *Ledger) reserve(uid types.UID, r *reservation) {
	l.release(uid)
	l.held[uid] = r
	if l.byDrive[r.drive] == nil {
		l.byDrive[r.drive] = map[types.UID]*reservation{}
	}
	l.byDrive[r.drive][uid] = r
}

// release drops a partition's reservation and returns it.
func (l *Ledger) release(uid types.UID) *reservation {
	r := l.held[uid]
	if r == nil {
		return nil
	}
	delete(l.held, uid)
	delete(l.byDrive[r.drive], uid)
	if len(l.byDrive[r.drive]) == 0 {
		delete(l.byDrive, r.drive)
	}
	return r
}

// rounded is the size in bytes that a partition takes. One that cannot be
// rounded takes everything, so that a mistake never looks like free space.
func rounded(bytes int64) int64 {
	size, err := capacity.RoundUp(bytes)
	if err != nil {
		return math.MaxInt64
	}
	return size
}

// freeOf is the space in bytes left on a device.
func (l *Ledger) freeOf(device *v1alpha1.NVMeDevice) int64 {
	free := device.Spec.TotalCapacity
	for _, r := range l.byDrive[DriveID{device.Spec.NodeName, device.Spec.SerialNumber}] {
		if r.size >= free {
			return 0
		}
		free -= r.size
	}
	return free
}

// describe makes the Drive of a device.
func (l *Ledger) describe(device *v1alpha1.NVMeDevice) Drive {
	d := Drive{Device: device.Name, Serial: device.Spec.SerialNumber, Free: l.freeOf(device)}
	var claim *v1alpha1.NVMeDeviceClaim
	closed := false
	if ref := device.Status.ClaimRef; ref != nil {
		d.Claim, claim, closed = *ref, l.claims[ref.UID], l.closed[ref.UID]
	}
	d.Refusal = driveRefusal(device, claim, closed, l.duplicate(device.Spec.SerialNumber))
	for _, r := range l.byDrive[DriveID{device.Spec.NodeName, device.Spec.SerialNumber}] {
		if !slices.Contains(d.Holders, r.backend) {
			d.Holders = append(d.Holders, r.backend)
		}
	}
	active := v1alpha1.TargetBackend(device.Status.ActiveBackend)
	if active != "" && device.Status.ActiveBackend != v1alpha1.ActiveBackendNone && !slices.Contains(d.Holders, active) {
		d.Holders = append(d.Holders, active)
	}
	slices.Sort(d.Holders)
	return d
}

// duplicate tells whether several drives with this serial number are there.
func (l *Ledger) duplicate(serial string) bool {
	there := 0
	for name := range l.bySerial[serial] {
		if !drive.Absent(l.devices[name]) {
			there++
		}
	}
	return there > 1
}

// position is where the node is, or belongs, in the snapshot.
func (l *Ledger) position(name string) (int, bool) {
	return slices.BinarySearchFunc(l.snapshot, name, func(n *Node, name string) int {
		switch {
		case n.Name < name:
			return -1
		case n.Name > name:
			return 1
		}
		return 0
	})
}

// rebuild derives a node of the snapshot anew and tells what became of it.
func (l *Ledger) rebuild(name string) Change {
	object, owner := l.nodes[name], l.owners[name]
	at, known := l.position(name)
	if object == nil && len(l.byNode[name]) == 0 {
		if known {
			l.snapshot = slices.Delete(l.snapshot, at, at+1)
		}
		return Change{}
	}
	node := &Node{Name: name, Domain: l.defaultDomain, Refusal: nodeRefusal(object, owner)}
	if owner != nil {
		node.Domain = owner.Spec.NetworkDomain
	}
	if object != nil {
		node.Transports = transportsOf(object)
	}
	node.AliveUntil, _ = l.beats.Deadline(name)
	for _, device := range l.byNode.names(name) {
		node.Drives = append(node.Drives, l.describe(l.devices[device]))
	}
	if !known {
		l.snapshot = slices.Insert(l.snapshot, at, node)
		return difference(&Node{}, node)
	}
	change := difference(l.snapshot[at], node)
	l.snapshot[at] = node
	return change
}

// rebuildSerial rebuilds every node that has a drive with this serial number.
func (l *Ledger) rebuildSerial(serial string) Change {
	var change Change
	for _, name := range l.bySerial.names(serial) {
		change.merge(l.rebuild(l.devices[name].Spec.NodeName))
	}
	return change
}
