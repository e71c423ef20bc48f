package placement

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
	"github.com/distort-io/distort/modules/manager/internal/heartbeat"
)

// Ledger is the inventory and what is reserved of it, in memory and kept by
// watch events. Free space is a drive's allocatable size minus the rounded
// sizes of all partitions assigned to it, in every namespace, terminating ones
// included; one that was asked to grow takes its new size from then on.
type Ledger struct {
	clock         func() time.Time
	beats         *heartbeat.Tracker
	defaultDomain v1alpha1.DomainName
	live          client.Reader

	catchUp  sync.Mutex
	caughtUp bool

	mu            sync.Mutex
	departed      map[types.UID]struct{} // partitions that went while the Ledger catches up; else nil
	registrations []toolscache.ResourceEventHandlerRegistration
	devices       map[string]*v1alpha1.NVMeDevice
	byNode        index
	bySerial      index
	claims        map[types.UID]*v1alpha1.NVMeDeviceClaim
	closed        map[types.UID]bool
	nodes         map[string]*v1alpha1.RDMAStorageNode
	owners        map[string]*v1alpha1.StorageNode
	placed        map[types.UID]*location
	byDrive       map[DriveID]map[types.UID]*location
	placedIn      index                  // nodes by the serial number of drives with partitions
	reservedOn    index                  // devices by the UID of a partition that they reserve for
	gone          map[types.UID]struct{} // partitions that some device still reserves for
	decided       map[types.UID]*decision
	decidedFor    map[string]map[types.UID]*decision // by device
	sent          map[types.UID]string               // resourceVersions that placements replaced
	waiting       map[types.UID]client.ObjectKey
	snapshot      []*Node // by name
	pools         pools
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
		placed: map[types.UID]*location{}, byDrive: map[DriveID]map[types.UID]*location{}, placedIn: index{},
		reservedOn: index{}, gone: map[types.UID]struct{}{},
		decided: map[types.UID]*decision{}, decidedFor: map[string]map[types.UID]*decision{},
		sent: map[types.UID]string{}, waiting: map[types.UID]client.ObjectKey{}, subscribers: map[int]func(Change){},
		pools: newPools(),
	}
}

// index is a set of names by some key.
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

// describe makes the Drive of a device. The node is nil when it is not known.
func (l *Ledger) describe(device *v1alpha1.NVMeDevice, node *v1alpha1.RDMAStorageNode) Drive {
	d := Drive{
		Device: device.Name, Serial: device.Spec.SerialNumber, Near: nearTo(device, node),
		Room: eligibility.RoomOf(device, l.load(device)),
	}
	var claim *v1alpha1.NVMeDeviceClaim
	if ref := device.Status.ClaimRef; ref != nil {
		d.Claim = *ref
		if !l.closed[ref.UID] {
			claim = l.claims[ref.UID]
		}
	}
	d.Refusal = eligibility.Drive(device, claim, l.duplicate(device.Spec.SerialNumber))
	return d
}

// duplicate tells whether several drives with this serial number are there.
func (l *Ledger) duplicate(serial string) bool {
	there := 0
	for name := range l.bySerial[serial] {
		if !eligibility.Absent(l.devices[name]) {
			there++
		}
	}
	return there > 1
}

// position is where the node is, or belongs, in the snapshot.
func (l *Ledger) position(name string) (int, bool) {
	return slices.BinarySearchFunc(l.snapshot, name, func(n *Node, name string) int { return strings.Compare(n.Name, name) })
}

// rebuild derives a node of the snapshot anew and tells what became of it.
func (l *Ledger) rebuild(name string) Change {
	object, owner := l.nodes[name], l.owners[name]
	at, known := l.position(name)
	if object == nil && len(l.byNode[name]) == 0 && (owner == nil || len(owner.Spec.AuthoritativePoolGUIDs) == 0) {
		if known {
			l.snapshot = slices.Delete(l.snapshot, at, at+1)
		}
		return Change{}
	}
	node := &Node{Name: name, Domain: l.defaultDomain, Refusal: eligibility.Node(object, owner)}
	if owner != nil {
		node.Domain = owner.Spec.NetworkDomain
		l.describePools(node, object, owner)
	}
	if object != nil {
		node.Transports, node.Backends = eligibility.Transports(object), eligibility.Backends(object)
	}
	node.AliveUntil, _ = l.beats.Deadline(name)
	for _, device := range l.byNode.names(name) {
		node.Drives = append(node.Drives, l.describe(l.devices[device], object))
	}
	if !known {
		l.snapshot = slices.Insert(l.snapshot, at, node)
		return difference(&Node{}, node)
	}
	change := difference(l.snapshot[at], node)
	l.snapshot[at] = node
	return change
}

// rebuildDrive derives one drive of the snapshot anew. What happens to a volume
// changes its drive alone, so the others of the node are not looked at.
func (l *Ledger) rebuildDrive(device *v1alpha1.NVMeDevice) Change {
	name := device.Spec.NodeName
	at, known := l.position(name)
	if !known {
		return l.rebuild(name)
	}
	before := l.snapshot[at]
	i, known := slices.BinarySearchFunc(before.Drives, device.Name, func(d Drive, name string) int { return strings.Compare(d.Device, name) })
	if !known {
		return l.rebuild(name)
	}
	after := *before
	after.Drives = slices.Clone(before.Drives)
	after.Drives[i] = l.describe(device, l.nodes[name])
	l.snapshot[at] = &after
	return driveDifference(&after, false, &before.Drives[i], &after.Drives[i])
}

// rebuildSerial rebuilds every drive with this serial number.
func (l *Ledger) rebuildSerial(serial string) Change {
	var change Change
	for _, name := range l.bySerial.names(serial) {
		change.merge(l.rebuildDrive(l.devices[name]))
	}
	return change
}

// on are the devices that a drive is known as; several while it is moved.
func (l *Ledger) on(drive DriveID) []*v1alpha1.NVMeDevice {
	var devices []*v1alpha1.NVMeDevice
	for _, name := range l.bySerial.names(drive.Serial) {
		if device := l.devices[name]; device.Spec.NodeName == drive.Node {
			devices = append(devices, device)
		}
	}
	return devices
}
