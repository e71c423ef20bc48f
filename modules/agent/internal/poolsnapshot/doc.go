// Package poolsnapshot reconciles the Snapshots of volumes on this node's pools: it
// takes them, reports that in one status patch, and destroys them. A snapshot that
// volumes were cloned from goes with the last of those; its object does not wait.
// Once a snapshot is recorded it is never taken again: what it would hold is not
// what it held.
package poolsnapshot
