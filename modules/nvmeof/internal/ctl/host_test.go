package ctl

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const mountinfo = `22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
36 22 0:31 / /proc rw - proc proc rw
41 22 259:12 / /mnt/with\040space rw - xfs /dev/nvme1n1p2 rw
`

// tree is a machine: 259:0 with a mounted partition, 259:10 with a partition
// that is mounted elsewhere, 259:20 held by dm-0, 259:30 with a partition that
// is held, 259:40 with a free partition.
func tree(t *testing.T) *Host {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"proc/self/mountinfo":                        mountinfo,
		"sys/dev/block/259:0/nvme0n1p1/partition":    "1",
		"sys/dev/block/259:0/nvme0n1p1/dev":          "259:1\n",
		"sys/dev/block/259:1/partition":              "1",
		"sys/dev/block/259:10/nvme1n1p2/partition":   "2",
		"sys/dev/block/259:10/nvme1n1p2/dev":         "259:12\n",
		"sys/dev/block/259:20/holders/dm-0":          "",
		"sys/dev/block/259:30/nvme3n1p1/partition":   "1",
		"sys/dev/block/259:30/nvme3n1p1/dev":         "259:31\n",
		"sys/dev/block/259:30/nvme3n1p1/holders/md0": "",
		"sys/dev/block/259:40/nvme4n1p1/partition":   "1",
		"sys/dev/block/259:40/nvme4n1p1/dev":         "259:41\n",
		"sys/dev/block/259:40/queue/rotational":      "0",
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return NewHost(filepath.Join(root, "proc"), filepath.Join(root, "sys"))
}

func TestUsedDevicesAreFound(t *testing.T) {
	for number, says := range map[string]string{
		"259:1":  "mounted at /",
		"259:0":  "259:1 is mounted at /",
		"259:10": `259:12 is mounted at /mnt/with\040space`,
		"259:20": "held by dm-0",
		"259:30": "held by md0",
		"259:40": "",
	} {
		t.Run(number, func(t *testing.T) {
			err := tree(t).used(number)
			if says == "" {
				if err != nil {
					t.Errorf("free, but %v", err)
				}
				return
			}
			if !errors.Is(err, ErrDeviceBusy) || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v, want ErrDeviceBusy with %q", err, says)
			}
		})
	}
}

func TestWhatCannotBeReadIsNotFree(t *testing.T) {
	if err := tree(t).used("1:1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("device without sysfs: %v", err)
	}
	h := tree(t)
	if err := os.Remove(filepath.Join(h.proc, "self/mountinfo")); err != nil {
		t.Fatal(err)
	}
	if err := h.used("259:40"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no mount table: %v", err)
	}
}

func TestOnlyBlockDevicesAreDevices(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		dir: ErrNotBlockDevice, file: ErrNotBlockDevice, "/dev/null": ErrNotBlockDevice, filepath.Join(dir, "absent"): fs.ErrNotExist,
	} {
		h := NewHost("/proc", "/sys")
		if _, err := h.ID(path); !errors.Is(err, want) {
			t.Errorf("ID %s: %v, want %v", path, err, want)
		}
		if err := h.Free(path); !errors.Is(err, want) {
			t.Errorf("Free %s: %v, want %v", path, err, want)
		}
	}
}
