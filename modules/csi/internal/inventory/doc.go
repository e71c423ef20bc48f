// Package inventory answers from caches what the storage nodes have: how much
// room there is for a volume, what is left of a drive or pool, whether a node is well,
// and from where it is reached.
//
// Which drives count, and how much, is decided by package eligibility of module api,
// as distort-manager's placement does (design.md §5), so that room is promised only
// where a volume would be placed. Two things
// it sees earlier than this package: heartbeats, which show here when the
// manager has written Ready=False, and what it has decided and not written yet.
package inventory
