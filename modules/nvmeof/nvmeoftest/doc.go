// Package nvmeoftest helps to test what is built on package nvmeof.
//
// Kernel is a stateful model of the kernel's nvmet configfs. It implements
// kernel.FS in memory: kernel.New(nvmeoftest.NewKernel(...)) is a Target that
// needs no root and no modules. It refuses what the kernel refuses, with the
// same errno; it can be told to fail or to be killed at the n-th effect, to
// hang while a namespace drains, and it has hosts that write, with writes on their
// way in sockets of controllers that were told to end and in flight to a device,
// so that a test can show what a fence keeps out.
//
// RunConformance is the suite that every Target has to pass; it runs on Kernel, on
// a real kernel in a virtual machine, on spdkfake, and on a real nvmf_tgt.
package nvmeoftest
