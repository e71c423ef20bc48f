package guest

import (
	"strconv"
	"strings"

	"github.com/distort-io/distort/e2e/internal/layout"
)

// emulator is the program that runs a guest.
const emulator = "qemu-system-x86_64"

// cpus of each guest. With two, emulated in parallel, a guest's kernel can die
// of a breakpoint while it patches its own code (int3 at a static key), because
// the other CPU still runs the translation of the old code. Two host CPUs are
// kept busy by three guests anyway.
//
// A second one that could be plugged in, and never is: for a machine that can only
// have one, the emulator leaves out the memory barriers of the guest's code (QEMU
// 7.2, tcg_gen_mb), as if its own I/O ran on that CPU too. It does not: now and then
// each of driver and device waits for the other, and a drive answers nothing until
// its driver resets it, a minute later.
const cpus = "1,maxcpus=2"

// Machine is all that the emulator needs to know.
type Machine struct {
	Node layout.Node
	// Tap is the host's end of its network device.
	Tap string
	// Kernel and Initrd are files.
	Kernel, Initrd string
	// RootDisk and ImageDisk are this guest's own (qcow2), LabDisk is shared.
	RootDisk, ImageDisk, LabDisk string
	// DriveFile returns the file behind an emulated NVMe drive.
	DriveFile func(serial string) string
	// Console receives the serial console, Monitor is the path of the control
	// socket (QMP).
	Console, Monitor string
}

// Arguments is the emulator's command line.
//
// Software emulation (TCG): KVM is not to be had where the lab is meant to run.
// Without romfile= the firmware of the network
// card waits for a network boot. cache=unsafe leaves flushing to the host, which
// survives the guest.
func (m Machine) Arguments() []string {
	args := []string{
		"-name", m.Node.Name,
		"-accel", "tcg", "-machine", "q35", "-cpu", cpuModel,
		"-m", strconv.Itoa(m.Node.MemoryMiB), "-smp", cpus,
		"-nographic", "-no-reboot", "-nodefaults",
		"-chardev", "file,id=console,append=on,path=" + escape(m.Console), "-serial", "chardev:console",
		"-qmp", "unix:" + m.Monitor + ",server=on,wait=off",
		"-kernel", m.Kernel, "-initrd", m.Initrd, "-append", kernelCommandLine + clockParameter(),
		"-netdev", "tap,id=net0,ifname=" + m.Tap + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=net0,romfile=,mac=" + m.Node.MAC(),
		"-device", "virtio-rng-pci",
	}
	args = append(args, virtioDisk("root", serialRoot, m.RootDisk, "qcow2")...)
	args = append(args, virtioDisk("images", serialImages, m.ImageDisk, "qcow2")...)
	args = append(args, virtioDisk("lab", serialLab, m.LabDisk, "raw")...)
	for i, serial := range m.Node.Drives {
		drive, err := FindDrive(m.Node, serial)
		if err != nil {
			panic(err) // serial is one of the node's
		}
		args = append(args, drive.arguments(i, m.DriveFile(serial))...)
	}
	return args
}

// kernelCommandLine: interface names stay eth0 and a panic ends the machine. The
// rest saves emulated CPU: no mitigations, no auditing, no security module that
// has no policy here anyway, no zeroing of huge pages, and no doubt about the
// clock, which on a busy host would end in reading an emulated timer.
const kernelCommandLine = "console=ttyS0 panic=-1 quiet net.ifnames=0 mitigations=off audit=0 lsm=yama transparent_hugepage=never tsc=reliable"

// cpuModel is all the emulator has, without what makes its memory accesses
// slow: five levels of page tables, and protection that is switched at every
// copy between kernel and user.
const cpuModel = "max,la57=off,smap=off,smep=off,pku=off"

func virtioDisk(id, serial, file, format string) []string {
	drive := "if=none,cache=unsafe,id=" + id + ",format=" + format + ",file=" + escape(file)
	if format == "raw" {
		drive += ",readonly=on"
	}
	return []string{"-drive", drive, "-device", "virtio-blk-pci,drive=" + id + ",serial=" + serial}
}

// escape doubles commas, which separate the emulator's options.
func escape(path string) string { return strings.ReplaceAll(path, ",", ",,") }
