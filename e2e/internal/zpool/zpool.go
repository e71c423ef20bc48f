// Package zpool gives a guest of the lab ZFS: the modules, and pools on disks that
// are files in the guest, beside the drives that DISTORT is given.
package zpool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/distort-io/distort/e2e/internal/guestexec"
	"github.com/distort-io/distort/e2e/internal/prepare"
)

// parameters of the modules: the cache of ZFS would take half of a guest's memory.
var parameters = map[string]string{"zfs.ko": "zfs_arc_max=134217728"}

// moduleDir is where the modules are put in the guest, whose folder of modules is
// read-only.
const moduleDir = "/var/tmp"

// Load loads the modules in the artifact of prepare.StepZFS, unless the guest's
// kernel has ZFS already.
func Load(ctx context.Context, guest *guestexec.Client, artifact string) error {
	loaded, err := guest.Output(ctx, "cat", "/proc/modules")
	if err != nil {
		return fmt.Errorf("load ZFS: %w", err)
	}
	for _, module := range prepare.ZFSModules {
		if hasModule(loaded, strings.TrimSuffix(module, ".ko")) {
			continue
		}
		if err := insert(ctx, guest, filepath.Join(artifact, module)); err != nil {
			return fmt.Errorf("load ZFS: %s: %w", module, err)
		}
	}
	return nil
}

func insert(ctx context.Context, guest *guestexec.Client, file string) error {
	module, err := os.Open(file)
	if err != nil {
		return err
	}
	defer module.Close()
	path := filepath.Join(moduleDir, filepath.Base(file))
	if _, err := guest.Pipe(ctx, module, "sh", "-c", `cat >"$1"`, "sh", path); err != nil {
		return err
	}
	args := []string{"insmod", path}
	if parameter := parameters[filepath.Base(file)]; parameter != "" {
		args = append(args, parameter)
	}
	if _, err := guest.Output(ctx, args...); err != nil {
		return err
	}
	_, err = guest.Output(ctx, "rm", "--", path)
	return err
}

// hasModule looks a module up in the text of /proc/modules.
func hasModule(loaded, name string) bool {
	for _, line := range strings.Split(loaded, "\n") {
		if first, _, _ := strings.Cut(line, " "); first == name {
			return true
		}
	}
	return false
}

// A pool gets a partition, as an administrator would give it one: ZFS would only
// wait for udev to show the ones that it makes on a whole disk. No pool is imported
// again when the guest boots.
const create = `set -e
truncate -s "$2" "/var/tmp/$1.pool"
disk=$(losetup --find --show --partscan "/var/tmp/$1.pool")
echo 'start=1MiB' | sfdisk -q --label gpt "$disk"
udevadm settle
zpool create -o cachefile=none -o ashift=12 -O mountpoint=none -O canmount=off -- "$1" "${disk}p1"
zpool list -Hp -o guid -- "$1"`

// Create makes a pool of that size, a number and a unit such as "1G", and returns
// its GUID. The disk is sparse.
func Create(ctx context.Context, guest *guestexec.Client, name, size string) (guid string, err error) {
	out, err := guest.Output(ctx, "sh", "-c", create, "sh", name, size)
	if err != nil {
		return "", fmt.Errorf("make pool %s: %w", name, err)
	}
	return strings.TrimSpace(out), nil
}

const destroy = `set -e
udevadm settle
zpool destroy -- "$1"
losetup --associated "/var/tmp/$1.pool" --noheadings --output NAME | xargs losetup --detach
rm -- "/var/tmp/$1.pool"`

// Destroy destroys a pool and its disk. Nothing may use its zvols: ZFS would wait
// for that, and cannot be stopped.
func Destroy(ctx context.Context, guest *guestexec.Client, name string) error {
	if _, err := guest.Output(ctx, "sh", "-c", destroy, "sh", name); err != nil {
		return fmt.Errorf("destroy pool %s: %w", name, err)
	}
	return nil
}

const changeGUID = `set -e
zpool reguid ${2:+-g "$2"} -- "$1"
zpool list -Hp -o guid -- "$1"`

// ChangeGUID gives a pool another identity while it is in use: that GUID, or a new
// one when it is empty. It returns the GUID that the pool has.
func ChangeGUID(ctx context.Context, guest *guestexec.Client, name, guid string) (string, error) {
	out, err := guest.Output(ctx, "sh", "-c", changeGUID, "sh", name, guid)
	if err != nil {
		return "", fmt.Errorf("change the GUID of pool %s: %w", name, err)
	}
	return strings.TrimSpace(out), nil
}

// Datasets returns all that is below a pool: datasets, zvols and snapshots.
func Datasets(ctx context.Context, guest *guestexec.Client, pool string) ([]string, error) {
	out, err := guest.Output(ctx, "zfs", "list", "-H", "-r", "-t", "all", "-o", "name", "--", pool)
	if err != nil {
		return nil, fmt.Errorf("list pool %s: %w", pool, err)
	}
	var below []string
	for _, name := range strings.Fields(out) {
		if name != pool {
			below = append(below, name)
		}
	}
	return below, nil
}

// Property returns a property of a dataset, a number in bytes.
func Property(ctx context.Context, guest *guestexec.Client, name, dataset string) (string, error) {
	out, err := guest.Output(ctx, "zfs", "get", "-Hp", "-o", "value", name, "--", dataset)
	if err != nil {
		return "", fmt.Errorf("read %s of %s: %w", name, dataset, err)
	}
	return strings.TrimSpace(out), nil
}
