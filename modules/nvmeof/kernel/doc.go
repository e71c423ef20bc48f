// Package kernel is an nvmeof.Target on the Linux kernel's NVMe target (nvmet),
// configured through configfs.
//
// What the code leans on was measured on Linux 6.12 or read in
// drivers/nvme/target/configfs.c, and is modelled by nvmeoftest.Kernel:
//
//   - Taking a host off allowed_hosts ends none of its controllers, and ending
//     a controller stops no write that is in flight. Only "enable" = 0 waits for
//     the device, inside the write. Hence the order of the fence.
//   - "enable" reads 0 as soon as draining begins, so that reading it proves
//     nothing. Writing 0 again waits for the drain in progress, whoever began
//     it, since all stores of "enable" hold one lock (nvmet_config_sem).
//     Therefore a fence always writes and never skips by reading.
//   - The same lock is needed for links and attributes: while a device does not
//     answer a drain, no other change of the target goes through either.
//     Therefore one call at a time changes the target, and one that hangs keeps
//     the others out (ErrBusy) instead of piling up stuck threads.
//   - attr_qid_max written with its own value ends every controller of that
//     subsystem and of no other.
//   - A namespace's UUID is random unless written before "enable".
//   - The kernel does not mind a device that is exported twice.
//   - Ports are shared: a port listens from its first link to its last, and its
//     address is locked meanwhile.
//
// The package must be the only one that changes ports within its range of port
// IDs (WithPortIDs); Remove deletes ports there that serve nobody.
package kernel
