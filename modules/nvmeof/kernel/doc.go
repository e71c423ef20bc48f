// Package kernel is an nvmeof.Target on the Linux kernel's NVMe target (nvmet),
// configured through configfs.
//
// What the code leans on was measured on Linux 6.12 or read in drivers/nvme/target
// and fs/configfs, and is modelled by nvmeoftest.Kernel:
//
//   - Taking a host off allowed_hosts ends none of its controllers, and ending
//     a controller stops no write that is in flight. Only "enable" = 0 waits for
//     the device, inside the write.
//   - A controller that was told to end is torn down later, in a work queue; what
//     is in its socket by then is still carried out if it finds an enabled
//     namespace. Without debugfs nothing shows whether that is over.
//   - But a controller belongs for life to the subsystem object that it connected
//     to, and finds namespaces only there. A subsystem that is removed and made
//     again under the same name is another object: no controller of the old one
//     reaches its namespaces, whatever its state, and neither does a connection
//     that was being made meanwhile.
//   - "enable" reads 0 as soon as draining begins, so that reading it proves
//     nothing. Writing 0 again waits for the drain in progress, whoever began it,
//     since all stores of "enable" hold one lock (nvmet_config_sem). Therefore a
//     fence always writes and never skips by reading.
//   - Removing a namespace's directory drains it too, but only when nothing else
//     holds the object, and Linux 6.9 to 6.12 leak references to a namespace that
//     is asked for while it is disabled. Therefore "enable" = 0 comes first.
//   - The lock of "enable" is needed for links, attributes and every connection:
//     while a device does not answer a drain, the whole target stands still.
//     Therefore a drain is only begun when the device has just answered a read.
//   - A namespace's UUID is random unless written before "enable".
//   - The kernel does not mind a device that is exported twice.
//   - Ports are shared: a port listens from its first link to its last, and its
//     address is locked meanwhile.
//
// Hence the order of the fence: disable the namespaces (drain), take the subsystem
// off its ports and the hosts off its list, remove it, read back that it is gone,
// make it again without the host and with the same identity, and serve it last.
//
// The package must be the only one that changes ports within its range of port
// IDs (WithPortIDs); Remove deletes ports there that serve nobody.
package kernel
