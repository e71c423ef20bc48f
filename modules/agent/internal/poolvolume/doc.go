// Package poolvolume reconciles the Volumes of type block that this node owns: it
// makes the zvol, empty or of a snapshot or another volume, exports it over NVMe-oF, and reports all of that in one status
// patch; in reverse for a deletion. It is to pools what package partition is to
// drives, and keeps to the same rules: the world is looked at first, and the only
// fact believed from status is the identity of the zvol. Once that is recorded, a
// zvol that is not there is data loss, and nothing is made in its place.
package poolvolume
