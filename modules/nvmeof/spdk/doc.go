// Package spdk is an nvmeof.Target on SPDK's nvmf_tgt, through its JSON-RPC.
//
// The devices of SPDK are bdevs, and have no paths. Here a bdev has the device
// path that DevicePath gives it, so that subsystems compare and validate as they
// do for the kernel.
//
// What the code leans on was recorded from SPDK v26.05 and v26.01 and is what
// nvmeoftest/spdkfake does:
//
//   - nvmf_subsystem_remove_host ends the host's connections, but up to v26.01 it
//     answers before what is queued has landed, and from v26.05 on it may answer
//     with a timeout while the host goes on writing. What held on both is to read
//     the controllers until none is the host's.
//   - A host that is connected but not on the list is not disconnected by any call
//     for it: it has to be put on the list and taken off.
//   - allow_any_host(false) disconnects nobody.
//   - Errors are "Invalid parameters" or "Internal error" whatever the cause. So
//     the state is read before each change, and again after an error or a lost
//     answer: what is then as it should be counts as done.
//   - Two changes of one object in flight together can crash the target, or leave
//     a write without an answer for ever. See rpc.Change.
//   - SPDK accepts an identity that another namespace has.
//   - Serial number, model and the highest NSID are those that a subsystem was made
//     with. It is never deleted to change them.
//   - A target that was restarted has forgotten everything but what is on devices.
//
// The package must be the only one that changes NVMe-oF objects of the target.
package spdk
