package guestinit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/e2e/internal/guestspec"
)

const (
	// stopTimeout is what processes may take to end by themselves.
	stopTimeout = 20 * time.Second
	stopPoll    = 100 * time.Millisecond
	// firstProcesses are init and the kernel's parent of its threads.
	firstProcesses = 2
	// shim is the parent of a container. systemd does not stop it with its runtime
	// (containerd.service has KillMode=process), and containerd kills the container
	// of a shim that ends.
	shim = "containerd-shim-runc-v2"
)

// shutdown takes a guest down in the order of systemd: first the file that keeps
// users out, then services and containers are asked to end, those that stay are
// killed, file systems are unmounted, and the machine stops. It returns only on
// failure.
//
// Volumes that are still mounted are unmounted here as on any host: whoever
// waits for a device that does not answer holds up the shutdown.
func shutdown() error {
	if err := writeFile(guestspec.NoLogin, []byte("the system is going down\n"), 0o644); err != nil {
		return err
	}
	say("going down: processes are asked to end")
	if err := signalOthers("/proc", unix.SIGTERM, shim); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); time.Sleep(stopPoll) {
		left, err := others("/proc", shim)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
	}
	if err := signalOthers("/proc", unix.SIGKILL, ""); err != nil {
		return err
	}
	say("going down: processes have ended, file systems are unmounted")
	if err := unmountAll(); err != nil {
		say("going down: %v", err)
	}
	unix.Sync()
	say("going down: off")
	return unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

// signalOthers signals every process but the guest's own program and the spared
// one.
func signalOthers(proc string, signal unix.Signal, spared string) error {
	pids, err := others(proc, spared)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
	}
	return nil
}

// others returns the processes that run neither the guest's own program nor one
// with the spared name. A kernel thread and a process that has ended have no
// program.
func others(proc, spared string) ([]int, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid <= firstProcesses {
			continue
		}
		exe, err := os.Readlink(filepath.Join(proc, entry.Name(), "exe"))
		if err != nil || exe == guestspec.Program || filepath.Base(exe) == spared {
			continue
		}
		pids = append(pids, pid)
	}
	return pids, nil
}

// unmountAll unmounts what is on disks, last mounted first, and makes the root
// read-only.
func unmountAll() error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	targets, err := diskMounts(bytes.NewReader(data))
	if err != nil {
		return err
	}
	var failures []error
	for _, target := range targets {
		if target == "/" {
			err = unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		} else {
			err = unix.Unmount(target, 0)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("unmount %s: %w", target, err))
		}
	}
	return errors.Join(failures...)
}

// diskMounts reads from a mount table where devices are mounted, the last mount
// first (proc_pid_mountinfo(5)).
func diskMounts(table io.Reader) ([]string, error) {
	var targets []string
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		mount, source, ok := strings.Cut(lines.Text(), " - ")
		fields, kind := strings.Fields(mount), strings.Fields(source)
		if !ok || len(fields) < 5 || len(kind) < 2 {
			return nil, fmt.Errorf("mount table has a line %q", lines.Text())
		}
		if strings.HasPrefix(kind[1], "/dev/") {
			targets = append(targets, unescape.Replace(fields[4]))
		}
	}
	slices.Reverse(targets)
	return targets, lines.Err()
}

// unescape undoes what the kernel does to a path in its tables.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
