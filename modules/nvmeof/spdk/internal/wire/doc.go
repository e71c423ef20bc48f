// Package wire has the objects of SPDK's RPC that several packages read, as far
// as they need them, and the names by which the writers of one object find each
// other (rpc.Client.Begin).
package wire
