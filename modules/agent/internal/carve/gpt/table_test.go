package gpt

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/capacity"
)

var drive = inventory.Drive{Serial: "S", Name: "nvme3n1", Path: "/dev/nvme3n1", SizeBytes: 1 << 30, BlockBytes: 512}

const header = `{"partitiontable":{"label":"gpt","id":"15101FB9-4120-DC4B-AF89-186149804BCE","device":"/dev/nvme3n1","unit":"sectors","firstlba":2048,"lastlba":2097118,"sectorsize":512`

func parts(list ...string) string {
	return header + `,"partitions":[` + strings.Join(list, ",") + `]}}`
}

func part(node string, start, size int64, uuid string) string {
	return fmt.Sprintf(`{"node":%q,"start":%d,"size":%d,"type":"0FC63DAF-8483-4772-8E79-3D69D8477DE4","uuid":%q,"name":"n"}`, node, start, size, uuid)
}

func TestParseTable(t *testing.T) {
	got, err := parseTable([]byte(parts(
		part("/dev/nvme3n1p7", 16384, 8192, "AAAAAAAA-0000-4000-8000-000000000007"),
		part("/dev/nvme3n1p2", 8192, 8192, "AAAAAAAA-0000-4000-8000-000000000002"))), drive)
	if err != nil {
		t.Fatal(err)
	}
	linux := "0fc63daf-8483-4772-8e79-3d69d8477de4"
	want := table{guid: "15101fb9-4120-dc4b-af89-186149804bce", first: 1 << 20, last: 2097119 * 512, entries: []entry{
		{Number: 2, UUID: "aaaaaaaa-0000-4000-8000-000000000002", Type: linux, Name: "n", Start: 4 << 20, Size: 4 << 20},
		{Number: 7, UUID: "aaaaaaaa-0000-4000-8000-000000000007", Type: linux, Name: "n", Start: 8 << 20, Size: 4 << 20},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(table{})); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	// sfdisk leaves the list out of an empty table.
	if got, err := parseTable([]byte(header+`}}`), drive); err != nil || len(got.entries) != 0 {
		t.Errorf("empty table = %+v, %v", got, err)
	}
}

func TestParseTableRefusesWhatCannotBe(t *testing.T) {
	const a, b = "AAAAAAAA-0000-4000-8000-000000000001", "AAAAAAAA-0000-4000-8000-000000000002"
	tests := map[string]struct{ text, message string }{
		"not JSON":           {"sfdisk: cannot open", "sfdisk: cannot open"},
		"DOS label":          {strings.Replace(parts(), "gpt", "dos", 1), `"dos"`},
		"other sector size":  {strings.Replace(parts(), `"sectorsize":512`, `"sectorsize":4096`, 1), "4096"},
		"beyond the drive":   {strings.Replace(parts(), "2097118", "2097152", 1), "2097152"},
		"another drive":      {parts(part("/dev/nvme30n1p1", 8192, 8192, a)), "/dev/nvme30n1p1"},
		"no number":          {parts(part("/dev/nvme3n1p", 8192, 8192, a)), "/dev/nvme3n1p"},
		"number 129":         {parts(part("/dev/nvme3n1p129", 8192, 8192, a)), "p129"},
		"padded number":      {parts(part("/dev/nvme3n1p01", 8192, 8192, a)), "p01"},
		"overlap":            {parts(part("/dev/nvme3n1p1", 8192, 8193, a), part("/dev/nvme3n1p2", 16384, 8192, b)), "overlap"},
		"same UUID":          {parts(part("/dev/nvme3n1p1", 8192, 8192, a), part("/dev/nvme3n1p2", 16384, 8192, a)), "same UUID"},
		"same number":        {parts(part("/dev/nvme3n1p1", 8192, 8192, a), part("/dev/nvme3n1p1", 16384, 8192, b)), "twice"},
		"before the first":   {parts(part("/dev/nvme3n1p1", 34, 8192, a)), "leaves the usable blocks"},
		"beyond the last":    {parts(part("/dev/nvme3n1p1", 8192, 2097118, a)), "leaves the usable blocks"},
		"size that overflow": {parts(part("/dev/nvme3n1p1", 8192, 1<<62, a)), "leaves the usable blocks"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := parseTable([]byte(tc.text), drive); err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("parseTable = %+v, %v; want an error with %q", got, err, tc.message)
			}
		})
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add([]byte(parts(part("/dev/nvme3n1p1", 8192, 8192, "AAAAAAAA-0000-4000-8000-000000000001"))))
	f.Add([]byte(header + `}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseTable(text, drive)
		if err != nil {
			return
		}
		for _, e := range got.entries {
			if e.Start < 0 || e.Size <= 0 || e.end() > drive.SizeBytes || e.Number < 1 {
				t.Errorf("accepted entry %+v leaves the drive", e)
			}
		}
	})
}

// Whatever the table and the kernel have, a place overlaps none of it, is
// aligned, and lies in the usable part; and none is refused that would fit.
func FuzzPlace(f *testing.F) {
	f.Add([]byte{3, 1, 9, 2, 40, 7}, byte(2))
	f.Add([]byte{}, byte(255))
	f.Fuzz(func(t *testing.T, spots []byte, units byte) {
		tab := table{first: 1 << 20, last: 2097119 * 512}
		var kernel []inventory.Partition
		for i := 0; i+1 < len(spots) && i < 60; i += 2 {
			start, size := int64(spots[i])*(1<<20)+(1<<20), int64(spots[i+1]%16+1)*(1<<20)
			if i%4 == 0 {
				tab.entries = append(tab.entries, entry{Number: i/2 + 1, Start: start, Size: size})
			} else {
				kernel = append(kernel, inventory.Partition{Number: i/2 + 1, StartBytes: start, SizeBytes: size})
			}
		}
		size := (int64(units) + 1) * capacity.Unit
		taken := func(start int64) bool {
			for _, e := range tab.entries {
				if e.Start < start+size && start < e.end() {
					return true
				}
			}
			for _, p := range kernel {
				if p.StartBytes < start+size && start < p.StartBytes+p.SizeBytes {
					return true
				}
			}
			return start < tab.first || start+size > tab.last
		}
		start, number, err := place(drive, tab, kernel, size)
		if err == nil {
			if taken(start) || start%capacity.Unit != 0 {
				t.Errorf("place at %d for %d bytes is taken or not aligned", start, size)
			}
			for _, e := range tab.entries {
				if e.Number == number {
					t.Errorf("number %d is taken", number)
				}
			}
			return
		}
		for at := int64(0); at < drive.SizeBytes; at += capacity.Unit {
			if !taken(at) {
				t.Fatalf("%v, but %d is free", err, at)
			}
		}
	})
}

func TestPlaceTellsWhatIsLeft(t *testing.T) {
	tab := table{first: 1 << 20, last: 2097119 * 512, entries: []entry{
		{Number: 1, Start: 4 << 20, Size: 500 << 20}, {Number: 2, Start: 520 << 20, Size: 400 << 20},
	}}
	_, _, err := place(drive, tab, nil, 200<<20)
	var got *carve.NoSpaceError
	if !errors.As(err, &got) {
		t.Fatal(err)
	}
	want := &carve.NoSpaceError{Serial: "S", Wanted: 200 << 20, Largest: 100 << 20, Free: 116 << 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

func TestPlaceStopsAtTheEndOfTheTable(t *testing.T) {
	tab := table{first: 1 << 20, last: 2097119 * 512}
	for n := 1; n <= maxEntries; n++ {
		tab.entries = append(tab.entries, entry{Number: n, Start: int64(n) * capacity.Unit, Size: capacity.Unit})
	}
	if _, _, err := place(drive, tab, nil, capacity.Unit); !errors.Is(err, carve.ErrNoSpace) || !strings.Contains(err.Error(), "128") {
		t.Errorf("place = %v", err)
	}
	// A hole in the numbers is used.
	tab.entries = append(tab.entries[:40], tab.entries[41:]...)
	_, number, err := place(drive, tab, nil, capacity.Unit)
	if diff := cmp.Diff(41, number); diff != "" || !cmp.Equal(err, nil, cmpopts.EquateErrors()) {
		t.Errorf("number = %d, %v; want 41", number, err)
	}
}
