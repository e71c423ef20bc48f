package guestinit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

const (
	newRoot = "/newroot"
	// diskTimeout bounds the wait for a virtio disk to appear; under emulation
	// with two busy CPUs a few seconds are usual.
	diskTimeout = 60 * time.Second
	diskPoll    = 10 * time.Millisecond
)

// boot is stage one: from the initial RAM file system to the real root.
func boot() error {
	for _, m := range []struct{ kind, target string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := mount(m.kind, m.target, m.kind, 0, ""); err != nil {
			return err
		}
	}
	say("kernel is up")
	data, err := os.ReadFile(guestspec.Path)
	if err != nil {
		return err
	}
	spec, err := guestspec.Unmarshal(data)
	if err != nil {
		return err
	}
	if err := insertModules(); err != nil {
		return err
	}
	disk, err := waitDisk(spec.Root)
	if err != nil {
		return err
	}
	if err := mount(disk, newRoot, "ext4", unix.MS_NOATIME, ""); err != nil {
		return err
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s to the root: %w", dir, err)
		}
	}
	if err := mount("run", newRoot+"/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	self, err := os.ReadFile("/init")
	if err != nil {
		return err
	}
	if err := writeFile(newRoot+guestspec.Program, self, 0o755); err != nil {
		return err
	}
	if err := writeFile(newRoot+filepath.Join(guestspec.RunDir, "spec.json"), data, 0o600); err != nil {
		return err
	}
	return switchRoot()
}

// switchRoot makes the mounted root the root, and starts the next stage there.
func switchRoot() error {
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	env := []string{"PATH=/opt/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=linux", "LANG=C.UTF-8"}
	return fmt.Errorf("start %s: %w", guestspec.Program, unix.Exec(guestspec.Program, []string{guestspec.Program, argReap}, env))
}

// insertModules loads the modules that were put into the RAM file system, in
// the order of their list.
func insertModules() error {
	list, err := os.ReadFile(guestspec.ModuleList)
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(list)) {
		file, err := os.Open(filepath.Join(guestspec.ModuleDir, name))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("insert module %s: %w", name, err)
		}
	}
	return nil
}

// waitDisk returns the device of the virtio disk with that serial.
func waitDisk(serial string) (string, error) {
	for deadline := time.Now().Add(diskTimeout); time.Now().Before(deadline); time.Sleep(diskPoll) {
		disks, err := filepath.Glob("/sys/block/vd*")
		if err != nil {
			return "", err
		}
		for _, disk := range disks {
			got, err := os.ReadFile(filepath.Join(disk, "serial"))
			if err != nil || strings.TrimSpace(string(got)) != serial {
				continue
			}
			// The disk is in sysfs a moment before its device file is there.
			device := filepath.Join("/dev", filepath.Base(disk))
			if _, err := os.Stat(device); err == nil {
				return device, nil
			}
		}
	}
	return "", fmt.Errorf("no virtio disk with serial %q within %s", serial, diskTimeout)
}

// mount makes the target directory and mounts there.
func mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, target, err)
	}
	return nil
}
