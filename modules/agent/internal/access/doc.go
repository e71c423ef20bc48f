// Package access reconciles the NVMeVolumeAttachments whose target is this node:
// it admits exactly their hosts, and fences a host before its attachment goes.
//
// That a host must be fenced is the attachment itself: an object with a deletion
// timestamp and our finalizer. No list is compared with an older list, so nothing
// is forgotten in a crash. The finalizer goes only after the evidence of the fence
// was written to the object (design.md §6).
package access
