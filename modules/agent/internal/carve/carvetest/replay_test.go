package carvetest_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/command"
)

// recording is one call of a real program on QEMU's NVMe drive of 1 GiB.
type recording struct {
	Name   string   `json:"name"`
	Argv   []string `json:"argv"`
	Exit   *int     `json:"exit"`
	Stdout string   `json:"stdout"`
	Stderr string   `json:"stderr"`
}

func recordings(t *testing.T) map[string]recording {
	t.Helper()
	f, err := os.Open("testdata/partition-recordings.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]recording{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		out[r.Name] = r
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

const linux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

func gpt2(d *carvetest.Drive) {
	d.SetGPT("15101FB9-4120-DC4B-AF89-186149804BCE", 2048, map[int]carvetest.Partition{
		1: {Start: 2048, Size: 204800, Type: linux, UUID: "AAAAAAAA-0000-4000-8000-000000000001", Name: "distort-a"},
		2: {Start: 206848, Size: 409600, Type: linux, UUID: "AAAAAAAA-0000-4000-8000-000000000002", Name: "distort-b"},
	})
}

func zfs(d *carvetest.Drive) {
	d.SetGPT("DF300D43-8DE2-BE44-A605-949429625602", 34, map[int]carvetest.Partition{
		1: {Start: 2048, Size: 2076672, Type: "6A898CC3-1DD2-11B2-99A6-080020736631", UUID: "28F29348-38E4-0D4B-9E6E-B7A72529E7E4", Name: "zfs-0a84285294d7cd66"},
		9: {Start: 2078720, Size: 16384, Type: "6A945A3B-1DD2-11B2-99A6-080020736631", UUID: "A31825AB-8FF1-D347-A81A-30A471451BD2"},
	})
}

func one(id, uuid string, first, size int64) func(*carvetest.Drive) {
	return func(d *carvetest.Drive) {
		d.SetGPT(id, first, map[int]carvetest.Partition{1: {Start: 2048, Size: size, Type: linux, UUID: uuid}})
	}
}

func lvm(d *carvetest.Drive) {
	d.SetSignatures(carvetest.Signature{Type: "LVM2_member", Offset: 0x218, UUID: "GyQEAs-ztnK-jiwK-MT5P-sBfe-1fuj-LGNZ9l",
		Extra: []string{`VERSION=LVM2\ 001`}, Usage: "raid"})
}

func damaged(part string) func(*carvetest.Drive) {
	return func(d *carvetest.Drive) { gpt2(d); d.Damage(part) }
}

// drives are the states of the recordings that are looked at with every program.
var drives = map[string]func(*carvetest.Drive){
	"empty":               func(*carvetest.Drive) {},
	"gpt2":                gpt2,
	"gpt-damaged-primary": damaged("primary"),
	"gpt-damaged-entries": damaged("primary"),
	"gpt-backup-only":     damaged("start"),
	"mbr": func(d *carvetest.Drive) {
		d.SetDOS("0xac3c65f8", map[int]carvetest.Partition{1: {Start: 2048, Size: 204800, Type: "83"}, 2: {Start: 206848, Size: 204800, Type: "8e"}})
	},
	"lvm-pv": lvm,
	"lvm-vg": lvm,
	"ext4": func(d *carvetest.Drive) {
		d.SetSignatures(carvetest.Signature{Type: "ext4", Offset: 0x438, UUID: "da79f20b-f0c1-465d-b362-ec96a1d509cb",
			Extra: []string{"VERSION=1.0", "BLOCK_SIZE=4096"}, Usage: "filesystem"})
	},
	"xfs": func(d *carvetest.Drive) {
		d.SetSignatures(carvetest.Signature{Type: "xfs", UUID: "92bc4618-56de-4bd2-8eed-28e6cacca5ce",
			Extra: []string{"BLOCK_SIZE=512"}, Usage: "filesystem"})
	},
	"mdraid": func(d *carvetest.Drive) {
		d.SetSignatures(carvetest.Signature{Type: "linux_raid_member", Offset: 0x1000, UUID: "1af5ca38-32ec-10c9-9b97-9c3d129d379e", Label: "storage:9",
			Extra: []string{"UUID_SUB=04874e59-ce6f-fde3-d278-91cf57d3efd8", "LABEL=storage:9", "VERSION=1.2"}, Usage: "raid"})
	},
	"gpt-over-ext4":        one("72BE3F29-5579-4F4C-9026-5016F4B598BB", "0AA4FB8F-DDAE-9A42-B363-66CC44B73708", 2048, 204800),
	"gpt-sgdisk-over-ext4": one("3653B7FC-FD78-487E-B5B7-25A75E90A362", "14B2DA06-97D8-4722-9A99-2CD013ABEB9B", 34, 204800),
	"zfs-imported":         zfs,
	"zfs-exported":         zfs,
	"zfs-in-partition":     one("09EF2B32-CD16-D346-8E11-1A93D159481F", "43982CA3-77E5-1545-B1D5-3BC8F9AB86D2", 2048, 614400),
}

func TestRecordedProbesOfWholeDrives(t *testing.T) {
	all := recordings(t)
	compared := 0
	for _, state := range slices.Sorted(maps.Keys(drives)) {
		for _, call := range []string{"sfdisk-json", "blkid-p", "wipefs-J"} {
			rec, ok := all[state+"/"+call]
			if !ok {
				t.Errorf("no recording %s/%s", state, call)
				continue
			}
			d := carvetest.NewDrive("FAKE0001", 1<<30)
			drives[state](d)
			replay(t, d, rec, "")
			compared++
		}
	}
	for _, name := range []string{"free/sfdisk-missing-dev", "free/blkid-missing", "free/wipefs-missing"} {
		replay(t, carvetest.NewDrive("FAKE0001", 1<<30), all[name], "")
		compared++
	}
	report(t, compared)
}

// The calls on a drive with an exported sibling, in their order. The recordings
// do not have the scripts; what each made is in the outputs of the next.
func TestRecordedCallsBesideAnExportedSibling(t *testing.T) {
	all := recordings(t)
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	d.SetGPT("D5BE9586-FE7E-1140-8D52-70970365758D", 2048, map[int]carvetest.Partition{
		1: {Start: 2048, Size: 204800, Type: linux, UUID: "BBBBBBBB-0000-4000-8000-000000000001", Name: "p-one"},
		2: {Start: 206848, Size: 204800, Type: linux, UUID: "BBBBBBBB-0000-4000-8000-000000000002", Name: "p-two"},
	})
	d.Export(1)
	entry := func(n, name string) string {
		s := "size=102400, uuid=BBBBBBBB-0000-4000-8000-00000000000" + n
		if name != "" {
			s += `, name="` + name + `"`
		}
		return s + "\n"
	}
	steps := []struct {
		name, script string
		kernel       []int // partitions that the kernel knows afterwards
	}{
		{"busy/sfdisk-append-plain", entry("3", "p-3"), []int{1, 2}},
		{"busy/sfdisk-append-no-reread", entry("4", "p-4"), []int{1, 2}},
		{"busy/sfdisk-append-no-tell-kernel", entry("5", "p-5"), []int{1, 2}},
		{"busy/partx-a-one", "", []int{1, 2, 5}},
		{"busy/partx-a-again", "", []int{1, 2, 5}},
		{"busy/partx-d-exported", "", []int{1, 2, 5}},
		{"busy/sfdisk-delete-exported", "", []int{1, 2, 5}},
		{"busy/sfdisk-delete-exported-no-reread", "", []int{1, 2, 5}},
	}
	for _, s := range steps {
		replay(t, d, all[s.name], s.script)
		parts, err := d.Partitions("nvme3n1")
		if err != nil {
			t.Fatal(err)
		}
		var numbers []int
		for _, p := range parts {
			numbers = append(numbers, p.Number)
		}
		if diff := cmp.Diff(s.kernel, numbers); diff != "" {
			t.Errorf("%s: kernel (-want +got):\n%s", s.name, diff)
		}
	}
	want := []int{2, 3, 4, 5} // busy/after-delete, without number 6 of sgdisk
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(d.Entries()))); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	report(t, len(steps))
}

// free/*: nothing is open, and sfdisk makes a smaller partition than asked for.
func TestRecordedAppendsToAnIdleDrive(t *testing.T) {
	all := recordings(t)
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	d.SetGPT("1B495AFA-9ADD-5243-975C-91412923DDE8", 2048, map[int]carvetest.Partition{
		1: {Start: 2048, Size: 204800, Type: linux, UUID: "CCCCCCCC-0000-4000-8000-000000000001"},
		2: {Start: 206848, Size: 204800, Type: linux, UUID: "CCCCCCCC-0000-4000-8000-000000000002"},
	})
	replay(t, d, all["free/sfdisk-append"], "size=40960\n")
	replay(t, d, all["free/sfdisk-append-no-space"], "size=18874368\n")
	if got := d.Entries()[4]; got.Start != 452608 || got.Size != 1640448 {
		t.Errorf("sfdisk was asked for 9 GiB and made %+v; recorded are 801 MiB at 452608", got)
	}
	// Of this script only the last sector, in the message, is recorded.
	replay(t, d, all["free/sfdisk-dup-uuid"], "start=2095103, size=8192\n")
	replay(t, d, all["free/sfdisk-garbage"], "garbage\n")

	damagedDrive := carvetest.NewDrive("FAKE0001", 1<<30)
	drives["gpt-backup-only"](damagedDrive)
	replay(t, damagedDrive, all["gpt-backup-only/sfdisk-append"], "size=2048\n")
	report(t, 5)
}

func report(t *testing.T, compared int) {
	if !t.Failed() {
		t.Logf("the fake agrees with all %d recordings compared", compared)
	}
}

// replay runs the recorded call on the fake and compares the exit code, what was
// said on stderr, and stdout. The tables that sfdisk prints for people after a
// change are not compared: the product asks for --quiet.
func replay(t *testing.T, d *carvetest.Drive, rec recording, script string) {
	t.Helper()
	if len(rec.Argv) == 0 || rec.Exit == nil {
		t.Fatalf("recording %q is not a call", rec.Name)
	}
	res, err := d.Runner().Run(t.Context(), command.New(rec.Argv[0], rec.Argv[1:]...).WithStdin(script))
	code, exited := command.ExitCode(err)
	if err != nil && !exited {
		t.Fatalf("%s: %v", rec.Name, err)
	}
	got, want := recording{Stdout: string(res.Stdout), Stderr: string(res.Stderr)}, recording{Stdout: rec.Stdout, Stderr: rec.Stderr}
	if rec.Argv[0] == "sfdisk" && !slices.Contains(rec.Argv, "--json") {
		got.Stdout, want.Stdout = "", ""
	}
	got.Stderr, want.Stderr = strings.TrimSpace(got.Stderr), strings.TrimSpace(want.Stderr)
	got.Exit, want.Exit = &code, rec.Exit
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %q (-recorded +fake):\n%s", rec.Name, rec.Argv, diff)
	}
}
