// Package cache keeps what the lab builds, one directory for each content key,
// so that a second run builds nothing and a killed run leaves nothing half made.
//
// An entry is built in a temporary directory beside its final place and renamed
// into it; its presence therefore means it is complete. Two processes that want
// the same entry are serialised by a file lock on the entry's name.
package cache
