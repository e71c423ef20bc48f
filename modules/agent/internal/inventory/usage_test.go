package inventory_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

const device = "/block/nvme1n1" // has partitions 1 (259:5) and 9 (259:6)

func TestPartitionsAreTheKernels(t *testing.T) {
	got, err := newReader(t, unpack(t, "target-nvmet-full")).Partitions("nvme1n1")
	if err != nil {
		t.Fatal(err)
	}
	want := []inventory.Partition{
		{Number: 1, Name: "nvme1n1p1", Path: "/dev/nvme1n1p1", Dev: inventory.DevNum{Major: 259, Minor: 5},
			StartBytes: 2048 * 512, SizeBytes: 4173824 * 512},
		{Number: 9, Name: "nvme1n1p9", Path: "/dev/nvme1n1p9", Dev: inventory.DevNum{Major: 259, Minor: 6},
			StartBytes: 4175872 * 512, SizeBytes: 16384 * 512},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}
}

func TestPartitionsRefusesNamesThatAreNoDevice(t *testing.T) {
	r := newReader(t, unpack(t, "target-nvmet-full"))
	for _, name := range []string{"", "..", "nvme1n1/../nvme0n1", "-x", "NVME"} {
		if _, err := r.Partitions(name); err == nil {
			t.Errorf("Partitions(%q) succeeded", name)
		}
	}
}

func TestUsesFindsWhatTheHostDoesWithADrive(t *testing.T) {
	mount := func(line string) func(*testing.T, inventory.Roots) {
		return func(t *testing.T, roots inventory.Roots) {
			b, err := os.ReadFile(roots.Proc + "/1/mountinfo")
			if err != nil {
				t.Fatal(err)
			}
			write(t, roots.Proc+"/1/mountinfo", string(b)+line+"\n")
		}
	}
	tests := map[string]struct {
		arrange func(*testing.T, inventory.Roots)
		want    []inventory.Use
	}{
		"nothing": {arrange: func(*testing.T, inventory.Roots) {}},
		"partition mounted, by number": {
			arrange: mount(`99 27 259:5 / /mnt/a\040b rw,noatime shared:9 - ext4 /dev/root rw`),
			want:    []inventory.Use{{Device: "nvme1n1p1", Kind: inventory.UsedByMount, Detail: "at /mnt/a b"}},
		},
		"whole drive mounted": {
			arrange: mount(`99 27 259:4 / /data rw - xfs /dev/nvme1n1 rw`),
			want:    []inventory.Use{{Device: "nvme1n1", Kind: inventory.UsedByMount, Detail: "at /data"}},
		},
		"btrfs, whose number is its own": {
			arrange: mount(`99 27 0:55 / /data rw - btrfs /dev/nvme1n1p9 rw`),
			want:    []inventory.Use{{Device: "nvme1n1p9", Kind: inventory.UsedByMount, Detail: "at /data"}},
		},
		"another drive mounted": {arrange: mount(`99 27 259:0 / /data rw - xfs /dev/nvme0n1 rw`)},
		"swap": {
			arrange: func(t *testing.T, roots inventory.Roots) {
				write(t, roots.Proc+"/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/nvme1n1p9 partition 8188 0 -2\n")
			},
			want: []inventory.Use{{Device: "nvme1n1p9", Kind: inventory.UsedBySwap}},
		},
		"holder of a partition": {
			arrange: func(t *testing.T, roots inventory.Roots) {
				write(t, roots.Sys+device+"/nvme1n1p1/holders/dm-3", "")
			},
			want: []inventory.Use{{Device: "nvme1n1p1", Kind: inventory.UsedByHolder, Detail: "by dm-3"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			roots := unpack(t, "target-nvmet-full")
			tc.arrange(t, roots)
			got, err := newReader(t, roots).Uses("nvme1n1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("uses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUsesFailsWhenItCannotTell(t *testing.T) {
	for _, file := range []string{"/1/mountinfo"} {
		roots := unpack(t, "target-nvmet-full")
		remove(t, roots.Proc+file)
		if uses, err := newReader(t, roots).Uses("nvme1n1"); err == nil {
			t.Errorf("without %s: uses = %v and no error", file, uses)
		}
		write(t, roots.Proc+file, "garbage\n")
		if _, err := newReader(t, roots).Uses("nvme1n1"); err == nil || !strings.Contains(err.Error(), "garbage") {
			t.Errorf("garbage in %s: error = %v", file, err)
		}
	}
	if _, err := newReader(t, unpack(t, "target-nvmet-full")).Uses("nvme9n9"); err == nil {
		t.Error("uses of a device that is not there: no error")
	}
}
