// Package identity derives every name by which a host, a volume or a drive is
// known, from the one identity that Kubernetes gave it.
//
// Derived, not stored: a name that follows from a UID needs no second write to
// be crash-safe, and two programs that never meet agree on it (design.md §9).
// Nothing here may change once released: namespace identities are pinned on
// every rebuild of a target, and an initiator drops the disk of a running pod
// when one of them differs (design.md §6, "Identity never changes").
package identity
