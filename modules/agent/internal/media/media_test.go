package media_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/command/commandtest"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/identity"
)

const (
	serial = "FAKE0001"
	size   = 1 << 30
)

// one is a table with a partition.
var one = map[int]carvetest.Partition{1: {Start: 8192, Size: 8192, Type: "0FC63DAF-8483-4772-8E79-3D69D8477DE4", UUID: "AAAAAAAA-0000-4000-8000-000000000001"}}

// Fault DI7: content of somebody else, such as xfs, is named and never taken for blank.
func TestProbeTellsWhatADriveMayBeUsedFor(t *testing.T) {
	own := func(d *carvetest.Drive) { d.SetGPT(identity.DiskGUID(serial), 2048, one) }
	spoilt := func(part string) func(*carvetest.Drive) {
		return func(d *carvetest.Drive) { own(d); d.Damage(part) }
	}
	signature := func(s carvetest.Signature) func(*carvetest.Drive) {
		return func(d *carvetest.Drive) { d.SetSignatures(s) }
	}
	tests := map[string]struct {
		drive   func(*carvetest.Drive)
		want    media.Verdict
		message string
	}{
		"blank":         {func(*carvetest.Drive) {}, media.Blank, "neither blkid nor wipefs"},
		"our own table": {own, media.Distort, identity.DiskGUID(serial)},
		"our table without partitions": {
			func(d *carvetest.Drive) { d.SetGPT(identity.DiskGUID(serial), 2048, nil) }, media.Distort, "",
		},
		"our table, of another drive": {
			func(d *carvetest.Drive) { d.SetGPT(identity.DiskGUID("FAKE0002"), 2048, one) }, media.Foreign, identity.DiskGUID("FAKE0002"),
		},
		"our table, primary damaged": {spoilt("primary"), media.Damaged, "primary table is damaged"},
		"our table, backup damaged":  {spoilt("backup"), media.Damaged, "backup table is damaged"},
		// blkid and sfdisk say that this drive is empty, and so does the kernel.
		"only the backup of a table": {spoilt("start"), media.Foreign, "gpt at 0x3ffffe00"},
		"our table under a filesystem": {
			func(d *carvetest.Drive) {
				own(d)
				d.SetSignatures(carvetest.Signature{Type: "ext4", Offset: 0x438, Usage: "filesystem"})
			}, media.Foreign, "ext4 at 0x438",
		},
		"DOS label": {func(d *carvetest.Drive) { d.SetDOS("0xac3c65f8", one) }, media.Foreign, "dos at 0x1fe"},
		"xfs": {
			signature(carvetest.Signature{Type: "xfs", UUID: "92bc4618-56de-4bd2-8eed-28e6cacca5ce", Usage: "filesystem"}),
			media.Foreign, "xfs at 0x0 UUID 92bc4618-56de-4bd2-8eed-28e6cacca5ce",
		},
		"LVM":              {signature(carvetest.Signature{Type: "LVM2_member", Offset: 0x218, Usage: "raid"}), media.Foreign, "LVM2_member at 0x218"},
		"RAID":             {signature(carvetest.Signature{Type: "linux_raid_member", Offset: 0x1000, Label: "storage:9", Usage: "raid"}), media.Foreign, `label "storage:9"`},
		"SPDK's blobstore": {func(d *carvetest.Drive) { d.SetHead("SPDKBLOB") }, media.Blobstore, "SPDK blobstore"},
		"a blobstore under an xfs": {func(d *carvetest.Drive) {
			d.SetHead("SPDKBLOB")
			d.SetSignatures(carvetest.Signature{Type: "xfs", Usage: "filesystem"})
		}, media.Foreign, "SPDKBLOB"},
		"ZFS table": {func(d *carvetest.Drive) { d.SetGPT("DF300D43-8DE2-BE44-A605-949429625602", 34, one) }, media.Foreign, "df300d43-8de2-be44-a605-949429625602"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := carvetest.NewDrive(serial, size)
			tc.drive(d)
			got := media.NewProber(d.Runner(), d, d).Probe(t.Context(), d.Inventory())
			if got.Verdict != tc.want || !strings.Contains(got.Message, tc.message) {
				t.Errorf("verdict = %s %q, want %s with %q", got.Verdict, got.Message, tc.want, tc.message)
			}
			if (got.Err != nil) != (got.Verdict == media.Unreadable) {
				t.Errorf("error = %v", got.Err)
			}
		})
	}
}

// kernel is a kernel that shows partitions, whatever the medium has.
type kernel struct {
	parts []inventory.Partition
	err   error
}

func (k kernel) Partitions(string) ([]inventory.Partition, error) { return k.parts, k.err }

// zeros are the first bytes of a blank drive.
type zeros struct{}

func (zeros) Head(_ string, n int) ([]byte, error) { return make([]byte, n), nil }

func TestBlankMediumWithKernelPartitionsIsDamaged(t *testing.T) {
	d := carvetest.NewDrive(serial, size)
	got := media.NewProber(d.Runner(), kernel{parts: []inventory.Partition{{Name: "nvme3n1p1"}}}, d).Probe(t.Context(), d.Inventory())
	if got.Verdict != media.Damaged || !strings.Contains(got.Message, "nvme3n1p1") {
		t.Errorf("verdict = %s %q, want Damaged naming the partition", got.Verdict, got.Message)
	}
}

func TestWhatCannotBeReadIsNeverBlank(t *testing.T) {
	answer := func(out string, code int) commandtest.Program {
		return func(context.Context, []string, string) (string, string, int) { return out, "", code }
	}
	nothing := answer("", 2)
	none := answer(`{"signatures": []}`, 0)
	tests := map[string]struct {
		blkid, wipefs commandtest.Program
		kernel        kernel
		want          media.Verdict
	}{
		"both agree (control)":       {nothing, none, kernel{}, media.Blank},
		"device is gone":             {nothing, answer("", 1), kernel{}, media.Unreadable},
		"blkid fails":                {answer("", 4), none, kernel{}, media.Unreadable},
		"blkid is not sure":          {answer("", 8), none, kernel{}, media.Foreign},
		"wipefs prints nothing":      {nothing, answer("", 0), kernel{}, media.Unreadable},
		"wipefs prints another JSON": {nothing, answer(`{"other": 1}`, 0), kernel{}, media.Unreadable},
		"wipefs offset is garbage":   {nothing, answer(`{"signatures":[{"offset":"x","type":"xfs"}]}`, 0), kernel{}, media.Unreadable},
		"only blkid sees it":         {answer("TYPE=zfs_member\n", 0), none, kernel{}, media.Foreign},
		"only wipefs sees it":        {nothing, answer(`{"signatures":[{"offset":"0x0","type":"xfs"}]}`, 0), kernel{}, media.Foreign},
		"our table, and wipefs sees a filesystem too": {
			answer("PTUUID="+identity.DiskGUID(serial)+"\nPTTYPE=gpt\n", 0),
			answer(`{"signatures":[{"offset":"0x200","type":"gpt"},{"offset":"0x3ffffe00","type":"gpt"},{"offset":"0x1fe","type":"PMBR"},{"offset":"0x10040","type":"btrfs"}]}`, 0),
			kernel{}, media.Foreign,
		},
		"our table (control)": {
			answer("PTUUID="+identity.DiskGUID(serial)+"\nPTTYPE=gpt\n", 0),
			answer(`{"signatures":[{"offset":"0x200","type":"gpt"},{"offset":"0x3ffffe00","type":"gpt"},{"offset":"0x1fe","type":"PMBR"}]}`, 0),
			kernel{}, media.Distort,
		},
		"kernel cannot be read": {nothing, none, kernel{err: errors.New("no such device")}, media.Unreadable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			run := commandtest.New(map[string]commandtest.Program{"blkid": tc.blkid, "wipefs": tc.wipefs})
			got := media.NewProber(run, tc.kernel, zeros{}).Probe(t.Context(), inventory.Drive{Serial: serial, Name: "nvme3n1", Path: "/dev/nvme3n1", SizeBytes: size, BlockBytes: 512})
			if got.Verdict != tc.want || (got.Err != nil) != (tc.want == media.Unreadable) {
				t.Errorf("verdict = %s %q (%v), want %s", got.Verdict, got.Message, got.Err, tc.want)
			}
		})
	}
}

func TestProbeOnlyLists(t *testing.T) {
	d := carvetest.NewDrive(serial, size)
	media.NewProber(d.Runner(), d, d).Probe(t.Context(), d.Inventory())
	want := []command.Cmd{
		command.New("blkid", "-p", "-o", "export", "--", "/dev/nvme3n1"),
		command.New("wipefs", "-J", "--", "/dev/nvme3n1"),
	}
	if diff := cmp.Diff(want, d.Runner().Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
