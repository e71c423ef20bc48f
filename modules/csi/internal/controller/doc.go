// Package controller is the CSI Controller service. It turns requests into
// NVMePartition or Volume and NVMeVolumeAttachment objects and waits, by watch and inside
// the caller's deadline, until distort-manager and distort-agent have made them
// true (design.md §4, §6).
//
// Each RPC is written in one file and goes the same way: package request
// validates, the volume is guarded against a second operation, the object is
// looked up and compared or written once, package await waits, and toStatus
// turns what went wrong into a gRPC code.
//
// Reads come from informers. A cache may be behind, so nothing that it lacks
// counts as gone before the API server has said so: an answer OK from
// DeleteVolume or ControllerUnpublishVolume is a promise.
package controller
