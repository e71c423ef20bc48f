// Package fencemodel checks the attachment protocol exhaustively. It has tests
// only.
//
// The parties are the CSI controller (by its effects: it makes and deletes
// attachments and answers when one is gone; it may die with such a request still
// on its way, which the next one sends again), the agent (the real access
// reconciler, exporter and target library, paused before each effect), two hosts
// that connect and write whenever they can, and the kernel's target (the model of
// nvmeoftest, with writes in sockets and in flight, and controllers that linger
// after they were told to end). Between any two steps any other party may act; the
// agent may die at each effect, with a request to the API server lost, answered
// to nobody or still on its way; its cache lags behind by any number of events. The
// storage node may reboot, which takes exports, connections and the agent, and so
// may a host, whose connection the target then keeps for a while.
//
// Each reachable state is visited once. Versions and identifiers that the API server
// gives out count by their order alone, since nobody does more than compare them. In every one of them must hold:
//
//   - a write lands only while its host's attachment exists, and only one that was
//     sent in that attachment's life: once unpublish has answered OK, no write of
//     that host lands (design.md §6);
//   - at most one host can write, and no other is on the allow-list;
//   - an attachment goes only after its evidence was written.
//
// And from every state one can be reached in which nothing is left to do: all
// attachments are gone, and the volume is exported to nobody.
package fencemodel
