// Package claim binds NVMeDeviceClaims to drives (design.md §3): it decides
// which claim owns which NVMeDevice and lets a drive go only when no partition
// is on it.
//
// Everything with one serial number is looked at together, by one worker, so
// claims that compete for a drive are judged against each other. The binding is
// NVMeDevice.status.claimRef, set and cleared with optimistic lock; the claim's
// own status only repeats it.
package claim
