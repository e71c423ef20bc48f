// Package manager is the module of distort-manager, the controllers of DISTORT
// that need no host: they bind NVMeDeviceClaims to drives, place NVMePartitions
// on them, account for what is left and expire storage nodes that fell silent.
//
// The program is cmd/distort-manager; see README.md for its flags and rights.
// cmd/kubectl-distort is the plugin by which people ask what is wrong.
package manager
