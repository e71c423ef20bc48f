// Package prepare makes everything the lab boots from: host packages, the
// guests' kernel, initrd and root file system, the programs of the cluster and
// the container images.
//
// Each is a Step. A step names the steps whose output it reads, has a key made
// of its inputs, and is built once for each key (package cache). Steps that do
// not need one another run side by side, but only one compiles and only one
// talks to the package manager at a time.
package prepare
