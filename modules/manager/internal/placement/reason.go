package placement

import "github.com/distort-io/distort/modules/api/eligibility"

// Reason says why a drive cannot hold a volume. Those that depend on objects alone
// are the constants of package eligibility; these are known here only.
type Reason = eligibility.Reason

// Reasons that depend on the time, or on other volumes.
const (
	NodeSilent       Reason = "storage node without heartbeat"
	NotTheSource     Reason = "not the drive of the source"
	NotTheSourcePool Reason = "not the pool of the source"
	OutsideTopology  Reason = "outside the requested network domains"
	// ClockAhead: what the node says it has seen of its pools lies in the future.
	ClockAhead Reason = "storage node's clock ahead"
)
