package identity

import (
	"regexp"
	"strings"
)

const (
	hostNQNPrefix = "nqn.2026-01.io.distort:host-"
	// MaxNQNLength is the largest NQN in bytes (NVM Express Base
	// Specification, §4.7 "NVMe Qualified Names"). nvmet's configfs accepts
	// longer ones and truncates them, so every producer checks.
	MaxNQNLength = 223
)

var hostNQNPattern = regexp.MustCompile(`^nqn\.2026-01\.io\.distort:host-[0-9a-f]{32}$`)

// HostNQN is the NVMe host name by which the node with this identity connects:
// the CSI node ID, which is the name of the Kubernetes node.
func HostNQN(nodeID string) string { return hostNQNPrefix + hex32(purposeHost, nodeID) }

// HostID is the NVMe host identifier that goes with HostNQN, a UUID made of the
// same 128 bits. The kernel refuses one with another's partner (EINVAL), so a
// host has exactly one pair.
func HostID(nodeID string) string {
	h := hex32(purposeHost, nodeID)
	return strings.Join([]string{h[0:8], h[8:12], h[12:16], h[16:20], h[20:32]}, "-")
}

// IsHostNQN tells whether s has the form that HostNQN returns.
func IsHostNQN(s string) bool { return hostNQNPattern.MatchString(s) }
