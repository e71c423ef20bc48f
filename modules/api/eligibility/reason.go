// Package eligibility has the rules by which drives, pools and storage nodes hold new
// volumes (design.md §5). distort-manager places by them and distort-csi answers
// GetCapacity by them, so that what is promised can be placed.
package eligibility

import "github.com/distort-io/distort/modules/api/v1alpha1"

// Reason says why a drive or pool cannot hold a volume, in words that fit after a
// count: "2 insufficient space". The empty Reason means that it can.
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

// Reasons that concern a pool whatever is asked of it.
const (
	DuplicatePool Reason = "pool declared by several storage nodes"
	PoolNotReady  Reason = "pool not ready"
)

// Reasons that concern every drive, or every pool, of a node.
const (
	NodeUnknown         Reason = "storage node unknown"
	NodeNotReady        Reason = "storage node not ready"
	InventoryIncomplete Reason = "inventory of drives incomplete"
	NodeDisabled        Reason = "storage node disabled"
	NodeCordoned        Reason = "storage node cordoned"
)

// Reasons that depend on what is asked.
const (
	NoRDMAPortal      Reason = "no rdma portal"
	NoTCPPortal       Reason = "no tcp portal"
	NoBackend         Reason = "backend not served"
	BackendElsewhere  Reason = "held by another backend"
	TooManyPartitions Reason = "too many partitions"
	NoSpace           Reason = "insufficient space"
	// Fragmented: the space is there, but perhaps not in one piece.
	Fragmented Reason = "free space fragmented"
	// TooManyVolumes: they wait for a sample of the pools that contains them.
	TooManyVolumes Reason = "too many new volumes"
)

func noPortal(transport v1alpha1.Transport) Reason {
	return Reason("no " + string(transport) + " portal")
}
