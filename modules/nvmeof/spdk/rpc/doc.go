// Package rpc speaks to SPDK's JSON-RPC 2.0 server over its Unix socket.
//
// A Client keeps one connection for all callers and makes a new one when the
// target was restarted. Answers come in the order in which SPDK finishes, so they
// are matched by id. Every call ends with its context, or at the method's own
// deadline (see Deadline), whichever is first; SPDK goes on with what it was told
// all the same, whoever waits for the answer.
//
// Two facts of SPDK (v26.05 and before) shape the package:
//
//   - Two changes of one object that are in flight together can crash the target
//     or lose a volume. So changes are made within a Change, which gives each
//     object to one writer at a time, and keeps it until SPDK has answered, even
//     if the caller went away.
//   - Error codes do not tell causes apart: a family of methods answers
//     "Invalid parameters" to everything. So callers read the state before they
//     write, and again after an error or a lost answer. Error carries method, code
//     and text, and is the errno it names where it names one.
//
// The client is our own because general JSON-RPC libraries assume what SPDK does
// not do: a parse error is answered by closing the connection, a request that
// cannot be read is answered with a null id, and nothing can be cancelled, so that
// a caller who leaves must not let the next change in.
package rpc
