// Package placement decides which drive holds a volume (design.md §5).
//
// The engine is pure: from a request and a snapshot of the inventory Decide makes
// a decision, and Explain the reason of every rejection. The Ledger keeps that
// snapshot by watch events, with the reservations of placed volumes and of
// those that this process has just placed. The Reconciler asks for a decision
// and writes it in one patch.
//
// # Never more than there is
//
// A decision and its reservation are one step under the Ledger's lock, so any
// number of workers in one process cannot give the same space away twice. A new
// leader reads every partition once from the API server before its first
// decision, because its watch may lag behind what its predecessor wrote.
//
// Two managers that are active at once, with leader election off or a leader
// that woke up after it lost its Lease, need more: the reservation must be one
// compare-and-swap. Ledger.Place is the only place where one is made. There a
// write of NVMeDevice.status.freeCapacity under the resourceVersion that the
// decision was made with would go before the partition's patch, and a conflict
// would decide anew; until then nothing but leader election keeps managers
// apart.
package placement
