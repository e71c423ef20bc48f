package gpt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/identity"
)

// TypeGUID is the partition type of DISTORT's volumes. With a type of their own,
// no tool that mounts or grows partitions by type takes them for its own.
const TypeGUID = "e1c2a5b4-6f0d-4c7e-9a35-d15707000001"

// maxEntries is the number of entries in a GPT as sfdisk makes it (UEFI 2.10, 5.3:
// at least 16 KiB of 128 bytes each).
const maxEntries = 128

// entry is one partition in the table. Offsets are in bytes.
type entry struct {
	Number int
	UUID   string // lower case
	Type   string // lower case
	Name   string
	Start  int64
	Size   int64
}

func (e entry) end() int64 { return e.Start + e.Size }

func (e entry) ours() bool { return e.Type == TypeGUID }

func (e entry) volume() carve.Volume {
	return carve.Volume{UUID: e.UUID, Name: e.Name, Number: e.Number, StartBytes: e.Start, SizeBytes: e.Size}
}

// table is a GPT as sfdisk reads it.
type table struct {
	guid    string
	first   int64 // first usable byte
	last    int64 // first byte that is not usable any more
	entries []entry
}

func (t table) byUUID(uuid string) (entry, bool) {
	for _, e := range t.entries {
		if e.UUID == uuid {
			return e, true
		}
	}
	return entry{}, false
}

// without returns the entries but for one UUID, to compare what a change left.
func (t table) without(uuid string) []entry {
	return slices.DeleteFunc(slices.Clone(t.entries), func(e entry) bool { return e.UUID == uuid })
}

// readProbed reads the table of a drive that carries a whole table of DISTORT's
// and nothing else.
func (m *Manager) readProbed(ctx context.Context, d inventory.Drive) (table, error) {
	if found := m.prober.Probe(ctx, d); found.Verdict != media.Distort {
		return table{}, refusal(d, found)
	}
	return m.read(ctx, d)
}

// read reads the table, and refuses one with another GUID.
func (m *Manager) read(ctx context.Context, d inventory.Drive) (table, error) {
	res, err := m.run.Run(ctx, command.New("sfdisk", "--json", "--", d.Path))
	if err != nil {
		return table{}, fmt.Errorf("drive %q: read partition table: %w", d.Serial, err)
	}
	t, err := parseTable(res.Stdout, d)
	if err != nil {
		return table{}, fmt.Errorf("drive %q: %w: %w", d.Serial, carve.ErrDamaged, err)
	}
	if own := identity.DiskGUID(d.Serial); t.guid != own {
		return table{}, fmt.Errorf("drive %q: %w: its table is %s, not %s", d.Serial, carve.ErrForeign, t.guid, own)
	}
	return t, nil
}

// parseTable reads the output of sfdisk --json, in sectors of the drive's logical
// size, and refuses a table that no rule of ours could have made.
func parseTable(text []byte, d inventory.Drive) (table, error) {
	var doc struct {
		Table struct {
			Label      string `json:"label"`
			ID         string `json:"id"`
			Unit       string `json:"unit"`
			FirstLBA   int64  `json:"firstlba"`
			LastLBA    int64  `json:"lastlba"`
			SectorSize int64  `json:"sectorsize"`
			Partitions []struct {
				Node  string `json:"node"`
				Start int64  `json:"start"`
				Size  int64  `json:"size"`
				Type  string `json:"type"`
				UUID  string `json:"uuid"`
				Name  string `json:"name"`
			} `json:"partitions"`
		} `json:"partitiontable"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return table{}, fmt.Errorf("sfdisk --json printed %.80q: %w", text, err)
	}
	p := doc.Table
	blocks := d.SizeBytes / d.BlockBytes
	switch {
	case p.Label != "gpt" || p.Unit != "sectors":
		return table{}, fmt.Errorf("table has label %q and unit %q; must be gpt and sectors", p.Label, p.Unit)
	case p.SectorSize != d.BlockBytes:
		return table{}, fmt.Errorf("table has sectors of %d bytes, the drive of %d", p.SectorSize, d.BlockBytes)
	case p.FirstLBA <= 0 || p.LastLBA < p.FirstLBA || p.LastLBA >= blocks:
		return table{}, fmt.Errorf("usable blocks %d to %d do not lie in a drive of %d blocks", p.FirstLBA, p.LastLBA, blocks)
	}
	t := table{guid: strings.ToLower(p.ID), first: p.FirstLBA * d.BlockBytes, last: (p.LastLBA + 1) * d.BlockBytes}
	for _, raw := range p.Partitions {
		number, err := partitionNumber(raw.Node, d.Path)
		if err != nil {
			return table{}, err
		}
		if raw.Start < p.FirstLBA || raw.Size <= 0 || raw.Size > p.LastLBA-raw.Start+1 {
			return table{}, fmt.Errorf("partition %d, %d blocks from %d on, leaves the usable blocks %d to %d", number, raw.Size, raw.Start, p.FirstLBA, p.LastLBA)
		}
		t.entries = append(t.entries, entry{
			Number: number, UUID: strings.ToLower(raw.UUID), Type: strings.ToLower(raw.Type), Name: raw.Name,
			Start: raw.Start * d.BlockBytes, Size: raw.Size * d.BlockBytes,
		})
	}
	slices.SortFunc(t.entries, func(a, b entry) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return a.Number - b.Number
	})
	return t, t.check()
}

// check refuses a table in which entries overlap or share a GUID or number.
func (t table) check() error {
	uuids, numbers := map[string]int{}, map[int]bool{}
	for i, e := range t.entries {
		if other, ok := uuids[e.UUID]; ok {
			return fmt.Errorf("partitions %d and %d have the same UUID %s", other, e.Number, e.UUID)
		}
		uuids[e.UUID] = e.Number
		if numbers[e.Number] {
			return fmt.Errorf("partition %d is there twice", e.Number)
		}
		numbers[e.Number] = true
		if i > 0 && t.entries[i-1].end() > e.Start {
			return fmt.Errorf("partitions %d and %d overlap", t.entries[i-1].Number, e.Number)
		}
	}
	return nil
}

// partitionNumber reads the number off a node's name: the drive's name, a "p"
// when that ends in a digit, and the number.
func partitionNumber(node, drive string) (int, error) {
	rest, ok := strings.CutPrefix(node, drive)
	if ok && drive[len(drive)-1] >= '0' && drive[len(drive)-1] <= '9' {
		rest, ok = strings.CutPrefix(rest, "p")
	}
	n, err := strconv.Atoi(rest)
	if !ok || err != nil || n < 1 || n > maxEntries || strconv.Itoa(n) != rest {
		return 0, fmt.Errorf("partition node %q is not one of %s", node, drive)
	}
	return n, nil
}

// find returns the kernel's partition for the entry: same number and place.
func find(parts []inventory.Partition, e entry) (inventory.Partition, bool) {
	for _, p := range parts {
		if p.Number == e.Number && p.StartBytes == e.Start && p.SizeBytes == e.Size {
			return p, true
		}
	}
	return inventory.Partition{}, false
}
