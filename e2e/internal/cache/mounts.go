package cache

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// discard removes what is left of a build.
func discard(dir string) error {
	if err := unmountBelow(dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// unmountBelow unmounts what is mounted below a directory, the last mount first. A
// build that was killed leaves mounts, and through them its removal would come to
// the host's own files.
func unmountBelow(dir string) error {
	table, err := os.Open("/proc/self/mountinfo") // proc_pid_mountinfo(5)
	if err != nil {
		return err
	}
	defer table.Close()
	var targets []string
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			targets = append(targets, fields[4])
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	var failures []error
	for _, target := range slices.Backward(targets) {
		if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			failures = append(failures, fmt.Errorf("unmount %s: %w", target, err))
		}
	}
	return errors.Join(failures...)
}
