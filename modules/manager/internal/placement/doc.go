// Package placement decides which drive holds a volume (design.md §5).
//
// The engine is pure: from a request and a snapshot of the inventory Decide makes
// a decision, and Explain the reason of every rejection. The Ledger keeps that
// snapshot by watch events. The Reconciler asks it what to do with a partition and
// writes the placement in one patch.
//
// # Never more than there is
//
// A decision is only a wish until it is reserved: NVMeDevice.status.reservations
// lists every partition that has space on the drive. The list is changed under the
// resourceVersion that the plan was made from (Ledger.Plan, written by package
// capacity together with freeCapacity), and a partition is placed only after its
// reservation was written. So
//
//   - every placed partition is in the list, and whoever adds one has seen all
//     others: two managers that are active at once cannot give the same space
//     away, however far their watches lag behind and however long one of them was
//     stopped between two steps;
//   - the decisions that gather while a drive is being written share the next
//     write;
//   - a manager that dies between reservation and placement leaves a promise. The
//     next one keeps it: Ledger.Place returns what is reserved before it decides
//     anything.
//
// A reservation is dropped when its partition is placed elsewhere (two managers
// decided at once, and one patch of the partition won) or is gone. Both are final,
// so managers cannot disagree about them. That a partition is gone is known from
// its watch, or by a read from the API server of one that no watch ever showed. A
// reservation of a partition that exists is never dropped, because another
// manager may be about to act on it.
//
// Pools are the same with StorageNode.status.reservations, which lists the Volumes
// that the published samples do not contain (design.md §5). A Volume leaves the list
// when the sample in the same object has reached its accountedGeneration: the write
// that drops it holds under that object's version, so no manager ever sees a Volume
// in neither.
//
// A new leader reads every partition once from the API server before its first
// decision, for those that a version without reservations placed.
package placement
