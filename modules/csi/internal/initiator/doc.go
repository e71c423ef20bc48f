// Package initiator connects this host to NVMe-oF subsystems and finds their
// namespaces, through /dev/nvme-fabrics and sysfs alone: no nvme-cli, no fork,
// no /dev/disk links.
//
// Rules that the code leans on, all measured on Linux 6.12:
//
//   - Instance numbers are not identities. Controller nvme2 may have namespace
//     /dev/nvme0n2 with NSID 1. A namespace is found by subsystem NQN and NSID
//     and UUID (and NGUID), never by a name (known faults ST8, ST13).
//   - A live controller does not mean a device: a disabled namespace, a changed
//     UUID or a UUID that another subsystem has already leaves it without one.
//   - A head whose controllers are gone leaves sysfs at once, but its name stays
//     taken while somebody has it open. Holding the device open therefore pins
//     the name, so that no other volume can appear under it.
//   - The kernel makes one connection at a time: a portal that does not answer
//     delays every other connect of the host for as long as the transport tries
//     (3 s for TCP). So what is connected already is looked up, not written again.
//   - Only attributes that the kernel answers from memory are read. Others
//     (nuse, hwmon) send commands and hang on a dead controller.
package initiator
