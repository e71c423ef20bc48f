package placement

import "github.com/distort-io/distort/modules/api/v1alpha1"

// Reason says why a drive cannot hold a volume, in words that fit after a
// count: "2 insufficient space".
type Reason string

// Reasons that concern a drive whatever is asked of it.
const (
	DriveUnclaimed   Reason = "not claimed"
	ClaimInactive    Reason = "claim not active"
	DuplicateSerial  Reason = "serial number not unique"
	DriveUnavailable Reason = "drive not available"
	DriveUnusable    Reason = "drive content not usable"
	DriveCordoned    Reason = "drive cordoned"
)

// Reasons that concern every drive of a node.
const (
	NodeUnknown         Reason = "storage node unknown"
	NodeNotReady        Reason = "storage node not ready"
	NodeSilent          Reason = "storage node without heartbeat"
	InventoryIncomplete Reason = "inventory of drives incomplete"
	NodeDisabled        Reason = "storage node disabled"
	NodeCordoned        Reason = "storage node cordoned"
)

// Reasons that depend on the request.
const (
	NotTheSource     Reason = "not the drive of the source"
	OutsideTopology  Reason = "outside the requested network domains"
	NoRDMAPortal     Reason = "no rdma portal"
	NoTCPPortal      Reason = "no tcp portal"
	BackendElsewhere Reason = "held by another backend"
	NoSpace          Reason = "insufficient space"
	// Fragmented: the space is there, but perhaps not in one piece.
	Fragmented        Reason = "free space fragmented"
	TooManyPartitions Reason = "too many partitions"
)

func noPortal(transport v1alpha1.Transport) Reason {
	return Reason("no " + string(transport) + " portal")
}
