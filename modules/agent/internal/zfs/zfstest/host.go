// Package zfstest has a stateful model of ZFS: pools with zvols, filesystems,
// snapshots and clones, the programs zpool and zfs that work on them, and the
// block devices that the kernel and udev make of zvols. A test replays recordings
// of ZFS 2.3.2 against it and prints how many agree.
package zfstest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/command/commandtest"
	"github.com/distort-io/distort/modules/agent/internal/zfs"
)

// Host is the ZFS of one machine. It is safe for concurrent use.
type Host struct {
	mu     sync.Mutex
	pools  map[string]*pool
	runner *commandtest.Runner
	minor  int
	made   int
	// late is how many lookups of a new zvol find no link yet.
	late int
}

var (
	_ zfs.Devices = (*Host)(nil)
	_ zfs.Blocks  = (*Host)(nil)
)

// pool is an imported pool.
type pool struct {
	name, guid, health string
	readonly           bool
	// total is what datasets can take, in bytes.
	total int64
	disks []string
	dead  map[string]bool // disks that do not answer
	sets  map[string]*dataset
}

// dataset is a filesystem, a volume or a snapshot.
type dataset struct {
	name, kind, guid string
	order            int
	props            map[string]string // local
	volsize, block   int64
	reserved, used   int64 // refreservation, referenced
	origin           string
	holds            map[string]bool
	deferred         bool
	device           string // of a volume, such as /dev/zd16
	open             bool
	unlinked         int // lookups until the link is there
}

// NewHost returns a host without pools.
func NewHost() *Host {
	h := &Host{pools: map[string]*pool{}}
	h.runner = commandtest.New(map[string]commandtest.Program{"zfs": h.zfs, "zpool": h.zpool})
	return h
}

// Runner runs the programs, and can be killed at any of them.
func (h *Host) Runner() *commandtest.Runner { return h.runner }

// Import makes a pool of that size in bytes that is there. Each disk is a
// top-level vdev; without any it has one.
func (h *Host) Import(name, guid string, total int64, disks ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(disks) == 0 {
		disks = []string{"/dev/" + name + "-disk"}
	}
	p := &pool{
		name: name, guid: guid, health: "ONLINE", total: total, disks: disks,
		dead: map[string]bool{}, sets: map[string]*dataset{},
	}
	h.pools[name] = p
	h.add(p, &dataset{name: name, kind: "filesystem"})
}

// Pool is a pool that is not imported anywhere.
type Pool struct{ pool *pool }

// Take exports the pool, so that another host can have it.
func (h *Host) Take(name string) Pool {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pools[name]
	delete(h.pools, name)
	return Pool{p}
}

// Give imports a pool that another host had. Its zvols are other devices here.
func (h *Host) Give(p Pool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range p.pool.sets {
		if d.kind == "volume" {
			h.link(d)
			d.open = false
		}
	}
	h.pools[p.pool.name] = p.pool
}

// SetHealth is what ZFS says of a pool, such as SUSPENDED.
func (h *Host) SetHealth(name, health string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[name].health = health
}

// SetReadOnly makes the pool one that was imported read-only.
func (h *Host) SetReadOnly(name string, readonly bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[name].readonly = readonly
}

// Pull takes the pool's disks away, or brings them back. Its health stays as it
// was, and so does what ZFS has in memory.
func (h *Host) Pull(name string, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, disk := range h.pools[name].disks {
		h.pools[name].dead[disk] = gone
	}
}

// Fill makes a dataset refer to so many bytes, as writing does.
func (h *Host) Fill(name string, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, d := h.find(name)
	d.used = bytes
}

// SetLate makes the links of zvols that are made from now on appear only after n
// lookups.
func (h *Host) SetLate(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.late = n
}

// Zvol is a zvol as the kernel has it.
type Zvol struct {
	Dataset, Path, UID, GUID string
	SizeBytes                int64
}

// Zvols lists the zvols of all imported pools by name.
func (h *Host) Zvols() []Zvol {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Zvol
	for _, p := range h.pools {
		for _, d := range p.sets {
			if d.kind == "volume" {
				out = append(out, Zvol{Dataset: d.name, Path: d.device, UID: d.props[zfs.UIDProperty], GUID: d.guid, SizeBytes: d.volsize})
			}
		}
	}
	slices.SortFunc(out, func(a, b Zvol) int { return strings.Compare(a.Dataset, b.Dataset) })
	return out
}

// Snap is a snapshot as ZFS has it.
type Snap struct {
	Name, UID string
	// Deferred is true when it goes with the last of its Clones.
	Deferred bool
	Clones   []string
}

// Snapshots lists the snapshots of all imported pools by name.
func (h *Host) Snapshots() []Snap {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Snap
	for _, p := range h.pools {
		for _, d := range p.sets {
			if d.kind == "snapshot" {
				out = append(out, Snap{Name: d.name, UID: d.props[zfs.UIDProperty], Deferred: d.deferred, Clones: p.clones(d.name)})
			}
		}
	}
	slices.SortFunc(out, func(a, b Snap) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// SetOpen makes exactly these devices open, as an export does.
func (h *Host) SetOpen(paths map[string]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		for _, d := range p.sets {
			d.open = d.kind == "volume" && paths[d.device]
		}
	}
}

// Reboot gives every zvol another device, as after a new start of the kernel.
func (h *Host) Reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(h.pools))) {
		for _, set := range slices.Sorted(maps.Keys(h.pools[name].sets)) {
			if d := h.pools[name].sets[set]; d.kind == "volume" {
				h.link(d)
				d.open = false
			}
		}
	}
}

// Lookup implements zfs.Devices.
func (h *Host) Lookup(_ context.Context, name string) (zfs.Device, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, d := h.find(name)
	if d == nil || d.kind != "volume" || d.unlinked > 0 {
		if d != nil {
			d.unlinked--
		}
		return zfs.Device{}, fmt.Errorf("%w: there is no link for %s", zfs.ErrNoDevice, name)
	}
	return zfs.Device{Path: d.device, SizeBytes: d.volsize}, nil
}

// IsZero implements zfs.Blocks: it reads a disk of a pool.
func (h *Host) IsZero(_ context.Context, path string, _, _ int64) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.pools {
		if slices.Contains(p.disks, path) {
			if p.dead[path] {
				return false, fmt.Errorf("open %s: no such device or address", path)
			}
			return false, nil
		}
	}
	return false, errors.New("open " + path + ": no such file or directory")
}

// find returns a dataset and its pool; nil when there is none.
func (h *Host) find(name string) (*pool, *dataset) {
	first, _, _ := strings.Cut(name, "/")
	first, _, _ = strings.Cut(first, "@")
	p := h.pools[first]
	if p == nil {
		return nil, nil
	}
	return p, p.sets[name]
}

func (h *Host) add(p *pool, d *dataset) {
	h.made++
	d.order = h.made
	hash := fnv.New64a()
	fmt.Fprint(hash, p.guid, d.name, h.made)
	d.guid = fmt.Sprint(hash.Sum64() | 1)
	if d.props == nil {
		d.props = map[string]string{}
	}
	d.holds = map[string]bool{}
	switch d.kind {
	case "filesystem":
		d.used = 24576
	case "volume":
		d.used = 12288
		h.link(d)
	}
	p.sets[d.name] = d
}

// link gives a zvol its device.
func (h *Host) link(d *dataset) {
	d.device = fmt.Sprintf("/dev/zd%d", h.minor)
	d.unlinked = h.late
	h.minor += 16
}

// sorted are the datasets of the pool as ZFS lists them: by name, and snapshots
// behind their dataset in the order of their creation.
func (p *pool) sorted() []*dataset {
	all := slices.Collect(maps.Values(p.sets))
	slices.SortFunc(all, func(a, b *dataset) int {
		headA, _, snapA := strings.Cut(a.name, "@")
		headB, _, snapB := strings.Cut(b.name, "@")
		if c := strings.Compare(headA, headB); c != 0 {
			return c
		}
		if snapA && snapB {
			return a.order - b.order
		}
		return len(a.name) - len(b.name)
	})
	return all
}

// available is what is left for new datasets.
func (p *pool) available() int64 {
	left := p.total
	for _, d := range p.sets {
		left -= max(d.reserved, d.used)
	}
	return max(0, left)
}

// below are the datasets that belong to name, itself excluded.
func (p *pool) below(name string) []*dataset {
	return slices.DeleteFunc(p.sorted(), func(d *dataset) bool {
		return !strings.HasPrefix(d.name, name+"/") && !strings.HasPrefix(d.name, name+"@")
	})
}

// clones are the names of what was cloned from a snapshot.
func (p *pool) clones(snapshot string) []string {
	var out []string
	for _, d := range p.sorted() {
		if d.origin == snapshot {
			out = append(out, d.name)
		}
	}
	return out
}
