package placement

import (
	"slices"
	"time"

	"github.com/distort-io/distort/modules/api/eligibility"
	"github.com/distort-io/distort/modules/api/v1alpha1"
)

// Drive is a drive as placement sees it.
type Drive struct {
	// Device is the name of the NVMeDevice.
	Device string
	// Serial is the drive's exact serial number.
	Serial string
	// Claim is the claim by which the drive may be used.
	Claim v1alpha1.ObjectReference
	// Refusal is why nothing can be placed on the drive; empty when it can.
	Refusal Reason
	// Near are the transports that have a portal on the NUMA node of the drive.
	Near []v1alpha1.Transport
	// Room that is left on the drive.
	eligibility.Room
}

// Pool is a ZFS pool as placement sees it.
type Pool struct {
	// GUID is the pool's identity.
	GUID v1alpha1.PoolGUID
	// Refusal is why nothing can be placed on the pool; empty when it can.
	Refusal Reason
	// Free is the space left in bytes.
	Free int64
	// Full is true when as many volumes wait for a sample of the node's pools as can.
	Full bool
}

// Node is a storage node with its drives and pools.
type Node struct {
	Name string
	// Domain is the network domain that reaches the node.
	Domain v1alpha1.DomainName
	// Refusal is why nothing can be placed on the node; empty when it can.
	Refusal Reason
	// AliveUntil is when the node's heartbeat expires.
	AliveUntil time.Time
	// Transports of the node's usable portals.
	Transports []v1alpha1.Transport
	// Backends that serve volumes on the drives.
	Backends []v1alpha1.TargetBackend
	// Drives in order of their names.
	Drives []Drive
	// PoolRefusal is why nothing can be placed on any of its pools; empty when it
	// can.
	PoolRefusal Reason
	// Observed is when the node last looked at its pools, by its own clock.
	Observed time.Time
	// Pools in the order in which the node declares them.
	Pools []Pool
}

// Request is what a volume needs.
type Request struct {
	// Pool is true for a volume that goes to a pool, and not to a drive.
	Pool bool
	// Size in bytes that is taken: of a drive a multiple of capacity.Unit, of a pool
	// capacity.Zvol.
	Size      int64
	Backend   v1alpha1.TargetBackend
	Transport v1alpha1.Transport
	Topology  v1alpha1.TopologyRequirement
	// Source, when set, is the drive that holds what the volume is a copy of; a
	// copy stays there.
	Source *DriveID
	// SourcePool is the same for pools.
	SourcePool *PoolID
}

// DriveID names a drive: a serial number alone is not unique until proved so.
type DriveID struct{ Node, Serial string }

// Placement is where a volume goes.
type Placement struct {
	DriveID
	Device string
	Claim  v1alpha1.ObjectReference
	// Pool and Domain are set instead of the drive when the volume goes to a pool of
	// the node.
	Pool   v1alpha1.PoolGUID
	Domain v1alpha1.DomainName
}

// Rejection says why one drive, or one pool, was not taken. Device is the name of
// the drive's object, or the pool's GUID.
type Rejection struct {
	Node, Device string
	Reason       Reason
}

// rank orders the drives or pools that can hold a volume.
type rank struct {
	preference   int // index in the preferred domains, the lower the better
	free         int64
	near         bool // a portal of the transport is on the drive's NUMA node
	node, device string
}

func (r rank) betterThan(other rank) bool {
	switch {
	case r.preference != other.preference:
		return r.preference < other.preference
	case r.free != other.free:
		return r.free > other.free
	case r.near != other.near:
		return r.near
	case r.device != other.device:
		return r.device < other.device
	default:
		return r.node < other.node
	}
}

// Decide chooses the drive or pool for a request: of those that can hold it the one in
// the most preferred domain, then the one with most space left after it, then one
// whose NUMA node has a portal of the transport, then the first by name. Space
// goes before the NUMA node, so that the drives of a node fill evenly; as long as
// they do, the near ones come first in every round. The same snapshot always gives
// the same decision; nil means that nothing can hold the volume, and Explain says
// why.
func Decide(now time.Time, request Request, nodes []*Node) *Placement {
	var best rank
	var chosen *Placement
	for _, node := range nodes {
		refused := node.refuses(now, request)
		if refused != "" {
			continue
		}
		preference := slices.Index(request.Topology.Preferred, node.Domain)
		if preference < 0 {
			preference = len(request.Topology.Preferred)
		}
		if request.Pool {
			for i := range node.Pools {
				pool := &node.Pools[i]
				if pool.refuses(node.Name, refused, request) == "" {
					candidate := rank{preference, pool.Free - request.Size, false, node.Name, string(pool.GUID)}
					if chosen == nil || candidate.betterThan(best) {
						best, chosen = candidate, &Placement{DriveID: DriveID{Node: node.Name}, Pool: pool.GUID, Domain: node.Domain}
					}
				}
			}
			continue
		}
		for i := range node.Drives {
			drive := &node.Drives[i]
			if drive.refuses(node.Name, refused, request) != "" {
				continue
			}
			near := slices.Contains(drive.Near, request.Transport)
			candidate := rank{preference, drive.Free - request.Size, near, node.Name, drive.Device}
			if chosen == nil || candidate.betterThan(best) {
				best, chosen = candidate, &Placement{DriveID: DriveID{node.Name, drive.Serial}, Device: drive.Device, Claim: drive.Claim}
			}
		}
	}
	return chosen
}

// Explain lists the drives or pools that cannot hold a request, with the reason of
// each.
func Explain(now time.Time, request Request, nodes []*Node) []Rejection {
	candidates := 0
	for _, node := range nodes {
		candidates += len(node.Drives) + len(node.Pools)
	}
	rejected := make([]Rejection, 0, candidates)
	for _, node := range nodes {
		refused := node.refuses(now, request)
		if request.Pool {
			for i := range node.Pools {
				if reason := node.Pools[i].refuses(node.Name, refused, request); reason != "" {
					rejected = append(rejected, Rejection{node.Name, string(node.Pools[i].GUID), reason})
				}
			}
			continue
		}
		for i := range node.Drives {
			if reason := node.Drives[i].refuses(node.Name, refused, request); reason != "" {
				rejected = append(rejected, Rejection{node.Name, node.Drives[i].Device, reason})
			}
		}
	}
	return rejected
}

// futureTolerance is how far a node's clock may be ahead of this one.
const futureTolerance = 30 * time.Second

// refuses is why no drive, or no pool, of the node can hold the volume.
func (n *Node) refuses(now time.Time, request Request) Reason {
	switch {
	case request.Pool && n.PoolRefusal != "":
		return n.PoolRefusal
	case request.Pool && n.Observed.After(now.Add(futureTolerance)):
		return ClockAhead
	case !request.Pool && n.Refusal != "":
		return n.Refusal
	case !now.Before(n.AliveUntil):
		return NodeSilent
	case len(request.Topology.Requisite) > 0 && !slices.Contains(request.Topology.Requisite, n.Domain):
		return OutsideTopology
	case !request.Pool && eligibility.Backend(n.Backends, request.Backend) != "":
		return eligibility.NoBackend
	}
	return eligibility.Transport(n.Transports, request.Transport)
}

// refuses is why the pool cannot hold the volume.
func (p *Pool) refuses(node string, nodeRefusal Reason, request Request) Reason {
	switch {
	case p.Refusal != "":
		return p.Refusal
	case nodeRefusal != "":
		return nodeRefusal
	case request.SourcePool != nil && *request.SourcePool != PoolID{node, p.GUID}:
		return NotTheSourcePool
	case p.Full:
		return eligibility.TooManyVolumes
	case p.Free < request.Size:
		return eligibility.NoSpace
	}
	return ""
}

// refuses is why the drive cannot hold the volume. What is wrong with the drive
// itself is said before what is wrong with its node.
func (d *Drive) refuses(node string, nodeRefusal Reason, request Request) Reason {
	switch {
	case d.Refusal != "":
		return d.Refusal
	case nodeRefusal != "":
		return nodeRefusal
	case request.Source != nil && *request.Source != DriveID{node, d.Serial}:
		return NotTheSource
	}
	return d.Refuses(request.Backend, request.Size)
}
