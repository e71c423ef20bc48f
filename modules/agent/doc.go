// Package agent is the storage node's part of DISTORT: distort-agent reports the
// node's local NVMe drives, ZFS pools and addresses, carves partitions out of
// drives that were claimed and zvols out of pools that are its own, exports them
// over NVMe-oF, and admits and fences hosts.
//
// It has no Go API; everything is below cmd and internal. What flows through it,
// and in which package:
//
//	internal/inventory   what the hardware is, read from sysfs
//	internal/media       what is on a drive
//	internal/report      NVMeDevice, RDMAStorageNode and the node's Lease
//	internal/carve       slices of a drive (carve/gpt: GPT partitions)
//	internal/pci         which driver has a function, by sysfs
//	internal/spdkdrive   drives between the kernel and SPDK
//	internal/zfs         pools and zvols, by zpool and zfs
//	internal/pool        which pools are this node's, and its StorageNode
//	internal/export      exports of a slice (the kernel's nvmet, SPDK)
//	internal/volume      where a slice is, who may reach it, and its one export
//	internal/partition   NVMePartitions: claim, drive, slice, export, status
//	internal/poolvolume  Volumes: pool, zvol, export, status
//	internal/access      NVMeVolumeAttachments: admit, fence, evidence
//	internal/app         options and wiring
package agent
