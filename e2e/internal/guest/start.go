package guest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/command"
	"github.com/distort-io/distort/e2e/internal/guestspec"
	"github.com/distort-io/distort/e2e/internal/initramfs"
	"github.com/distort-io/distort/e2e/internal/layout"
	"github.com/distort-io/distort/e2e/internal/network"
)

// Files are what all guests are made from.
type Files struct {
	Kernel, Initrd, RootDisk, LabDisk, ImageDisk string
}

// In returns the machine whose own files are in dir.
func In(dir string, node layout.Node, files Files) Machine {
	return Machine{
		Node: node, Tap: network.Tap(node.Number), Kernel: files.Kernel, LabDisk: files.LabDisk,
		Initrd:   filepath.Join(dir, "initrd.cpio"),
		RootDisk: filepath.Join(dir, "root.qcow2"), ImageDisk: filepath.Join(dir, "images.qcow2"),
		Console: filepath.Join(dir, "console.log"), Monitor: filepath.Join(dir, "qmp.sock"),
		DriveFile: func(serial string) string { return filepath.Join(dir, serial+".img") },
	}
}

// Prepare makes the guest's own files in dir: disks that keep what the guest
// writes over the shared ones, the drives, and the initrd with its spec.
func Prepare(ctx context.Context, run command.Runner, dir string, node layout.Node, files Files, spec guestspec.Spec) (Machine, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Machine{}, fmt.Errorf("prepare guest %s: %w", node.Name, err)
	}
	machine := In(dir, node, files)
	for overlay, base := range map[string]string{machine.RootDisk: files.RootDisk, machine.ImageDisk: files.ImageDisk} {
		if err := run.Run(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, overlay); err != nil {
			return Machine{}, fmt.Errorf("prepare guest %s: %w", node.Name, err)
		}
	}
	for _, serial := range node.Drives {
		if err := makeDrive(machine.DriveFile(serial)); err != nil {
			return Machine{}, fmt.Errorf("prepare guest %s: drive %s: %w", node.Name, serial, err)
		}
	}
	if err := writeInitrd(machine.Initrd, files.Initrd, spec); err != nil {
		return Machine{}, fmt.Errorf("prepare guest %s: %w", node.Name, err)
	}
	return machine, nil
}

// makeDrive makes an empty sparse file, unless there is one.
func makeDrive(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(layout.DriveBytes)
}

// writeInitrd appends an archive with the spec to the one of all guests.
func writeInitrd(path, base string, spec guestspec.Spec) error {
	data, err := spec.Marshal()
	if err != nil {
		return err
	}
	var own bytes.Buffer
	archive := initramfs.NewWriter(&own)
	if err := archive.File(strings.TrimPrefix(guestspec.Path, "/"), 0o600, data); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	in, err := os.Open(base)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := io.Copy(out, io.MultiReader(in, &own)); err != nil {
		return err
	}
	return out.Close()
}

// Emulator returns the program and the arguments that run the machine.
func (m Machine) Emulator() (string, []string) { return emulator, m.Arguments() }
