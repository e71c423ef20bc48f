package guestinit

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/guestspec"
)

// systemMounts are what every Linux system has beside /proc, /sys and /dev.
var systemMounts = []struct{ kind, target, data string }{
	{"devpts", "/dev/pts", "mode=620,ptmxmode=666"},
	{"tmpfs", "/dev/shm", ""},
	{"mqueue", "/dev/mqueue", ""},
	{"tmpfs", "/tmp", ""},
	{"cgroup2", "/sys/fs/cgroup", ""},
}

// node is stage three: it turns the guest into what the spec says. The command
// server starts first, so that a guest whose set-up fails can be looked at.
func node() error {
	for _, m := range systemMounts {
		if err := mount(m.kind, m.target, m.kind, 0, m.data); err != nil {
			return err
		}
	}
	// Volumes mounted by the CSI driver must be seen by kubelet and the pods.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(guestspec.RunDir, "spec.json"))
	if err != nil {
		return err
	}
	spec, err := guestspec.Unmarshal(data)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf(":%d", guestspec.ExecPort))
	if err != nil {
		return err
	}
	go func() {
		if err := setUp(spec); err != nil {
			say("FAILED %v", err)
			_ = writeFile(filepath.Join(guestspec.RunDir, "failed"), []byte(err.Error()), 0o644)
			return
		}
		say("guest is set up")
		_ = writeFile(filepath.Join(guestspec.RunDir, "ready"), nil, 0o644)
		superviseAll(spec.Services)
	}()
	return guestexec.Serve(listener)
}

func setUp(spec guestspec.Spec) error {
	if err := unix.Sethostname([]byte(spec.Name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	for _, m := range spec.Mounts {
		disk, err := waitDisk(m.Serial)
		if err != nil {
			return err
		}
		flags := uintptr(unix.MS_NOATIME)
		if m.ReadOnly {
			flags |= unix.MS_RDONLY
		}
		if err := mount(disk, m.Target, "ext4", flags, ""); err != nil {
			return err
		}
	}
	for _, bind := range spec.Binds {
		if err := mount(bind.Source, bind.Target, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, file := range spec.Files {
		if err := writeFile(file.Path, []byte(file.Content), os.FileMode(file.Mode)); err != nil {
			return err
		}
	}
	if err := loadModules(spec.Modules); err != nil {
		return err
	}
	for _, sysctl := range spec.Sysctls {
		if err := os.WriteFile(filepath.Join("/proc/sys", sysctl.Name), []byte(sysctl.Value), 0); err != nil {
			return fmt.Errorf("set %s: %w", sysctl.Name, err)
		}
	}
	return runSetup(spec.Setup)
}

// loadModules loads all modules by one process: starting thirty takes an
// emulated guest many seconds.
func loadModules(modules []string) error {
	args := append([]string{"--all", "--"}, modules...)
	if out, err := exec.Command("modprobe", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("load modules: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func runSetup(commands [][]string) error {
	for _, args := range commands {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
