// Package node is the CSI Node service: it brings an exported volume from the
// fabric to a path, and back (design.md §4, §6, §7).
//
// Every RPC reads the same way: the request is parsed and checked into a plain
// struct (request.go), the volume is guarded, the work is done through small
// interfaces, and the error becomes a gRPC status in one place (errors.go).
//
// A stage that was killed anywhere is finished by the next stage or undone by
// an unstage: each step looks before it acts, and the staging record is written
// before the first of them.
package node
