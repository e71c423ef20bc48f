// Package lvol keeps logical volumes of SPDK: one store on each device, a volume
// in it for each slice.
//
// A store or volume whose UUID was recorded is adopted by that UUID and never made
// anew: when it is missing, data is missing (ErrLost). Without a record it is looked
// for by name before it is made, since an earlier call may have made it.
//
// SPDK refuses none of what destroys data here (recorded from v26.05): it shrinks a
// volume that is exported although it answers an error, it deletes one under a host
// that is writing, and two changes of one volume at once crash it. So this package
// never sends a smaller size, deletes only what nobody exports, and makes one change
// of a store at a time.
package lvol
