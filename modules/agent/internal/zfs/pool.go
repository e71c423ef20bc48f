package zfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Pool is a pool that is imported on this node.
type Pool struct {
	// GUID is its identity, a decimal number.
	GUID string
	// Name is what it is called now.
	Name string
	// Health is ZFS's word, such as ONLINE. It is no proof that the pool works; see
	// Check.
	Health string
	// ReadOnly pools cannot be changed.
	ReadOnly bool
}

// Online tells whether ZFS calls the pool usable.
func (p Pool) Online() bool { return p.Health == "ONLINE" || p.Health == "DEGRADED" }

// Usable says why nothing can be changed on the pool, as far as ZFS knows.
func (p Pool) Usable() error {
	switch {
	case p.Health == "SUSPENDED":
		return fmt.Errorf("pool %s: %w", p, ErrSuspended)
	case !p.Online():
		return fmt.Errorf("pool %s: %w: its health is %s", p, ErrUnhealthy, p.Health)
	case p.ReadOnly:
		return fmt.Errorf("pool %s: %w", p, ErrReadOnly)
	}
	return nil
}

func (p Pool) String() string { return fmt.Sprintf("%s (%s)", p.GUID, p.Name) }

// ValidGUID tells whether s is a pool's GUID as ZFS prints it.
func ValidGUID(s string) bool {
	n, err := strconv.ParseUint(s, 10, 64)
	return err == nil && n != 0 && strconv.FormatUint(n, 10) == s
}

// Pools lists all imported pools. It reads no disk.
func (m *Manager) Pools(ctx context.Context) ([]Pool, error) {
	pools, err := locked(ctx, m.pools, "*", func(ctx context.Context) ([]Pool, error) {
		lines, err := m.run(ctx, "zpool", "list", "-Hp", "-o", "name,guid,health,readonly")
		if err != nil {
			return nil, err
		}
		var out []Pool
		for _, line := range lines {
			f, err := fields(line, 4)
			if err != nil {
				return nil, err
			}
			if !ValidGUID(f[1]) {
				return nil, fmt.Errorf("pool %q has GUID %q, which is not a decimal number", f[0], f[1])
			}
			out = append(out, Pool{Name: f[0], GUID: f[1], Health: f[2], ReadOnly: f[3] == "on"})
		}
		return out, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list pools: %w", err)
	}
	return pools, nil
}

// present makes sure that the pool's name still is this pool's: ErrNoPool.
func (m *Manager) present(ctx context.Context, p Pool) error {
	lines, err := m.run(ctx, "zpool", "list", "-Hp", "-o", "guid", "--", p.Name)
	switch {
	case err != nil:
		return err
	case !slices.Equal(lines, []string{p.GUID}):
		return fmt.Errorf("%w: %s is pool %s now", ErrNoPool, p.Name, strings.Join(lines, " "))
	}
	return nil
}

// Authorize compares the imported pools with those that this node declares, by
// GUID: ErrMismatch names what is missing and what nobody declared. A node whose
// pools are not exactly its own changes none of them.
func Authorize(declared []string, imported []Pool) error {
	var wrong []string
	for _, guid := range declared {
		if !slices.ContainsFunc(imported, func(p Pool) bool { return p.GUID == guid }) {
			wrong = append(wrong, "pool "+guid+" is declared and not imported")
		}
	}
	for _, p := range imported {
		if !slices.Contains(declared, p.GUID) {
			wrong = append(wrong, "pool "+p.String()+" is imported and not declared")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%w: %s", ErrMismatch, strings.Join(wrong, ", "))
}

// labelBytes is how much Check reads: the first block of a vdev's label.
const labelBytes = 4096

// Check proves that the pool can be read now: of each top-level vdev at least one
// disk has answered a read that no cache could answer. ZFS itself calls a pool
// ONLINE whose only disk was pulled out, and answers reads of it from memory.
func (m *Manager) Check(ctx context.Context, p Pool) error {
	if err := p.Usable(); err != nil {
		return err
	}
	vdevs, err := onPool(ctx, m, p, func(ctx context.Context) ([]vdev, error) {
		lines, err := m.run(ctx, "zpool", "list", "-vHpP", "--", p.Name)
		if err != nil {
			return nil, err
		}
		return parseVdevs(lines)
	})
	if err != nil {
		return fmt.Errorf("list the disks of pool %s: %w", p, err)
	}
	for _, v := range vdevs {
		if err := m.readAny(ctx, v); err != nil {
			return fmt.Errorf("pool %s: %w: no disk of %s answers: %w", p, ErrUnhealthy, v.name, err)
		}
	}
	return nil
}

func (m *Manager) readAny(ctx context.Context, v vdev) error {
	var errs []error
	for _, disk := range v.disks {
		_, err := locked(ctx, m.opens, disk, func(ctx context.Context) (bool, error) {
			return m.blocks.IsZero(ctx, disk, 0, labelBytes)
		})
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// vdev is a top-level vdev that holds data.
type vdev struct {
	name  string
	disks []string
}

// parseVdevs reads `zpool list -vHpP`: the pool, then a line for each vdev, flat.
// A top-level vdev has a number for what is allocated on it, and what belongs to
// one has "-". Behind the words logs, cache and spare comes what the pool can do
// without.
func parseVdevs(lines []string) ([]vdev, error) {
	var out []vdev
	spare := false
	for i, line := range lines {
		if i == 0 {
			continue // the pool itself
		}
		f := strings.Split(strings.TrimPrefix(line, "\t"), "\t")
		name := f[0]
		switch {
		case name == "logs" || name == "cache" || name == "spare":
			spare = true
		case name == "special" || name == "dedup":
			spare = false
		case spare:
		case len(f) < 3:
			return nil, fmt.Errorf("line %q of ZFS names no vdev", line)
		case f[2] != "-":
			out = append(out, vdev{name: name})
			if strings.HasPrefix(name, "/") {
				out[len(out)-1].disks = []string{name}
			}
		case strings.HasPrefix(name, "/") && len(out) > 0:
			out[len(out)-1].disks = append(out[len(out)-1].disks, name)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("ZFS names no vdev")
	}
	return out, nil
}
