package inventory

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// UseKind is a way in which the host itself uses a block device.
type UseKind string

// Kinds of use.
const (
	UsedByMount  UseKind = "mount"
	UsedByHolder UseKind = "holder" // device mapper, md
	UsedBySwap   UseKind = "swap"
	// UsedExclusively: the kernel refuses an exclusive open. It is how a member of a
	// ZFS pool shows, or a mount in another mount namespace: neither has a holder.
	UsedExclusively UseKind = "exclusive"
)

// Use is one use of a drive or a partition of it.
type Use struct {
	Device string // kernel name of what is used
	Kind   UseKind
	Detail string // mount point, holder or file
}

func (u Use) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s is in use (%s) %s", u.Device, u.Kind, u.Detail))
}

// Uses says what the host does with the block device of this kernel name and
// with its partitions, by mounts, swap areas and holders. An export through
// nvmet is not a use in this sense; nothing in the kernel tells of it.
func (r *Reader) Uses(device string) ([]Use, error) {
	names, err := r.family(device)
	if err != nil {
		return nil, err
	}
	mounts, err := r.mounts(names)
	if err != nil {
		return nil, err
	}
	swaps, err := r.swaps(names)
	if err != nil {
		return nil, err
	}
	holders, err := r.holders(names)
	if err != nil {
		return nil, err
	}
	return append(append(mounts, swaps...), holders...), nil
}

// UsesNow is Uses and an exclusive open of the device's node, which sees every
// user that claims the device or a part of it. It opens the device, so it is for
// the moment before a destructive step and not for a periodic scan.
func (r *Reader) UsesNow(device string) ([]Use, error) {
	uses, err := r.Uses(device)
	if err != nil || len(uses) > 0 {
		return uses, err
	}
	path := filepath.Join(r.roots.Dev, device)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return []Use{{Device: device, Kind: UsedExclusively, Detail: "by a kernel user that mounts, swap areas and holders do not show"}}, nil
	case err != nil:
		return nil, fmt.Errorf("open %s exclusively: %w", path, err)
	}
	return nil, unix.Close(fd)
}

// member is a drive or a partition of it.
type member struct {
	name string
	dir  string
	dev  DevNum
}

func (r *Reader) family(device string) ([]member, error) {
	parts, err := r.Partitions(device)
	var dir string
	switch {
	case err == nil:
		dir = r.sys("block", device)
	case errors.Is(err, fs.ErrNotExist):
		// Not a whole device: a partition, which class/block lists too.
		dir = r.sys("class", "block", device)
	default:
		return nil, err
	}
	dev, err := readDevNum(dir, "dev")
	if err != nil {
		return nil, fmt.Errorf("block device %s: %w", device, err)
	}
	out := []member{{device, dir, dev}}
	for _, p := range parts {
		out = append(out, member{p.Name, filepath.Join(dir, p.Name), p.Dev})
	}
	return out, nil
}

// mounts looks devices up by number, and by source for filesystems whose number
// is not the device's (btrfs).
func (r *Reader) mounts(of []member) ([]Use, error) {
	// Process 1: the host's mounts, not those of the agent's container.
	path := r.proc("1", "mountinfo")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	defer f.Close()
	var out []Use
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := parseMount(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, d := range of {
			if m.dev == d.dev || m.source == "/dev/"+d.name {
				out = append(out, Use{d.name, UsedByMount, "at " + m.point})
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

type mount struct {
	dev    DevNum
	point  string
	source string
}

// parseMount reads a line of mountinfo (proc_pid_mountinfo(5)).
func parseMount(line string) (mount, error) {
	before, after, ok := strings.Cut(line, " - ")
	fields, tail := strings.Fields(before), strings.Fields(after)
	if !ok || len(fields) < 6 || len(tail) < 1 {
		return mount{}, fmt.Errorf("line %q is not a mount", line)
	}
	dev, err := ParseDevNum(fields[2])
	if err != nil {
		return mount{}, fmt.Errorf("line %q: %w", line, err)
	}
	m := mount{dev: dev, point: unescape(fields[4])}
	if len(tail) > 1 {
		m.source = unescape(tail[1])
	}
	return m, nil
}

var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

func unescape(s string) string { return mountEscapes.Replace(s) }

func (r *Reader) swaps(of []member) ([]Use, error) {
	b, err := os.ReadFile(r.proc("swaps"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a kernel without swap
	}
	if err != nil {
		return nil, fmt.Errorf("read swap areas: %w", err)
	}
	var out []Use
	for _, line := range strings.Split(string(b), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		for _, d := range of {
			if unescape(fields[0]) == "/dev/"+d.name {
				out = append(out, Use{d.name, UsedBySwap, ""})
			}
		}
	}
	return out, nil
}

func (r *Reader) holders(of []member) ([]Use, error) {
	var out []Use
	for _, d := range of {
		entries, err := os.ReadDir(filepath.Join(d.dir, "holders"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read holders of %s: %w", d.name, err)
		}
		for _, e := range entries {
			out = append(out, Use{d.name, UsedByHolder, "by " + e.Name()})
		}
	}
	return out, nil
}
