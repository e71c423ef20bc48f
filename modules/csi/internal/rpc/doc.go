// Package rpc serves gRPC on a unix socket that nobody else can open, with
// what every call needs around it: a request ID, one log line without secrets,
// a deadline, and an answer even if the handler panics.
package rpc
