// Package partition reconciles the NVMePartitions that are placed on this node:
// it authorises the claim, carves the slice, exports it, and reports all of that
// in one status patch; in reverse for a deletion.
//
// Each pass looks at the world first and believes no condition that an earlier
// one wrote. The only fact it believes from status is the identity of the slice:
// once it is recorded, a slice that is not on its drive is data loss, and nothing
// is made in its place.
package partition
