package gpt_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distort-io/distort/modules/agent/internal/carve"
	"github.com/distort-io/distort/modules/agent/internal/carve/carvetest"
	"github.com/distort-io/distort/modules/agent/internal/carve/gpt"
	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/agent/internal/media"
	"github.com/distort-io/distort/modules/api/identity"
)

func TestPartitionOfSomebodyElseInOurTableIsNeverDeleted(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	uuid := "aaaaaaaa-0000-4000-8000-000000000001"
	d.SetGPT(identity.DiskGUID("FAKE0001"), 2048, map[int]carvetest.Partition{
		1: {Start: 8192, Size: 8192, Type: "0FC63DAF-8483-4772-8E79-3D69D8477DE4", UUID: strings.ToUpper(uuid)},
	})
	m := d.Manager(t)
	if err := m.Delete(t.Context(), d.Inventory(), uuid); !errors.Is(err, carve.ErrForeign) {
		t.Errorf("Delete = %v, want ErrForeign", err)
	}
	// Its place is not given away either, and it is not listed as a volume.
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 1))
	if err != nil || v.StartBytes < 8<<20 {
		t.Errorf("volume = %+v, %v", v, err)
	}
	list, err := m.List(t.Context(), d.Inventory())
	if err != nil || len(list) != 1 || len(d.Entries()) != 2 {
		t.Errorf("list = %+v, %v, table = %+v", list, err, d.Entries())
	}
}

func TestKernelThatDisagreesAboutAPartitionIsRefused(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m := d.Manager(t)
	if err := m.Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 2))
	if err != nil {
		t.Fatal(err)
	}
	d.Write(v.StartBytes, v.SizeBytes)
	d.Export(v.Number) // so that the kernel keeps what it has
	for n, p := range d.Entries() {
		p.Size /= 2 // somebody changed the table behind the kernel
		d.SetGPT(identity.DiskGUID("FAKE0001"), 2048, map[int]carvetest.Partition{n: p})
	}
	_, err = m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 1))
	if !errors.Is(err, carve.ErrDamaged) {
		t.Errorf("Create = %v, want ErrDamaged", err)
	}
	if err := m.Delete(t.Context(), d.Inventory(), v.UUID); !errors.Is(err, carve.ErrDamaged) {
		t.Errorf("Delete = %v, want ErrDamaged", err)
	}
	if got := d.Dirty(v.StartBytes, v.SizeBytes); got != v.SizeBytes {
		t.Errorf("%d of %d bytes are left", got, v.SizeBytes)
	}
}

func TestDriveInUseIsNotInitialised(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	d.Hold(1)
	err := d.Manager(t).Init(t.Context(), d.Inventory())
	if !errors.Is(err, carve.ErrBusy) || !strings.Contains(err.Error(), "/mnt") {
		t.Errorf("Init = %v, want ErrBusy naming the mount", err)
	}
	for _, c := range d.Runner().Calls() {
		if c.Name == "sfdisk" {
			t.Errorf("%s ran on a drive in use", c)
		}
	}
}

// Fault DI7.
func TestRefusalNamesTheDriveAndTheSignature(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	d.SetSignatures(carvetest.Signature{Type: "ext4", Offset: 0x438, UUID: "da79f20b-f0c1-465d-b362-ec96a1d509cb", Usage: "filesystem"})
	err := d.Manager(t).Init(t.Context(), d.Inventory())
	for _, want := range []string{"FAKE0001", "ext4", "da79f20b-f0c1-465d-b362-ec96a1d509cb"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %q", err, want)
		}
	}
}

// sideEffect is a drive on which zeroing does something else too.
type sideEffect struct {
	*carvetest.Drive
	on func()
}

func (s sideEffect) Zero(ctx context.Context, path string, offset, length int64) error {
	err := s.Drive.Zero(ctx, path, offset, length)
	s.on()
	return err
}

func TestZeroingThatDoesNotTakeIsNoticed(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	if err := d.Manager(t).Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	d.Write(4<<20, 4096)
	m, err := gpt.New(gpt.Config{Runner: d.Runner(), Prober: media.NewProber(d.Runner(), d, d), Kernel: d,
		Blocks: sideEffect{d, func() { d.Write(4<<20, 4096) }}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 2)); !errors.Is(err, carve.ErrDamaged) {
		t.Errorf("Create = %v, want ErrDamaged", err)
	}
	if len(d.Entries()) != 0 {
		t.Errorf("a partition was made over old data: %+v", d.Entries())
	}
}

func TestManyVolumesAtOnceNeitherOverlapNorGetLost(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m := d.Manager(t)
	if err := m.Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	const n = 32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			s := carvetest.SliceOf(fmt.Sprint(i), int64(i%3+1))
			if _, err := m.Create(t.Context(), d.Inventory(), s); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				if err := m.Delete(t.Context(), d.Inventory(), s.UUID); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	list, err := m.List(t.Context(), d.Inventory()) // refuses a table with an overlap
	if err != nil || len(list) != n/2 {
		t.Errorf("%d volumes, want %d (%v)", len(list), n/2, err)
	}
}

func TestDriveValueThatNoScanMakesIsRefused(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	for name, change := range map[string]func(*inventory.Drive){
		"no serial":      func(d *inventory.Drive) { d.Serial = "" },
		"relative path":  func(d *inventory.Drive) { d.Path = "nvme3n1" },
		"other name":     func(d *inventory.Drive) { d.Path = "/dev/nvme0n1" },
		"no size":        func(d *inventory.Drive) { d.SizeBytes = 0 },
		"odd block size": func(d *inventory.Drive) { d.BlockBytes = 520 },
	} {
		drive := d.Inventory()
		change(&drive)
		if err := d.Manager(t).Init(t.Context(), drive); !errors.Is(err, carve.ErrInvalid) {
			t.Errorf("%s: Init = %v, want ErrInvalid", name, err)
		}
	}
	if calls := d.Runner().Calls(); len(calls) != 0 {
		t.Errorf("programs ran: %v", calls)
	}
}

func deletable(t *testing.T, d *carvetest.Drive, on func()) (*gpt.Manager, carve.Volume) {
	t.Helper()
	m, err := gpt.New(gpt.Config{Runner: d.Runner(), Prober: media.NewProber(d.Runner(), d, d), Kernel: d, Blocks: sideEffect{d, on}, Step: carvetest.Step})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 25))
	if err != nil {
		t.Fatal(err)
	}
	return m, v
}

// The next volume may be another tenant's, who can read every byte of it.
func TestDeleteZeroesWhatNoSampleSees(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m, v := deletable(t, d, func() {})
	d.Write(v.StartBytes+v.SizeBytes/4, 4096)
	if err := m.Delete(t.Context(), d.Inventory(), v.UUID); err != nil {
		t.Fatal(err)
	}
	if got := d.Dirty(0, 1<<30); got != 0 {
		t.Errorf("%d bytes of the deleted volume are left", got)
	}
}

// udev reads the table again whenever somebody closes the drive after a write,
// zeroing included, and the entry is still there then.
func TestDeleteOutlastsARereadInTheMiddle(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m, v := deletable(t, d, func() { d.Reread() })
	if err := m.Delete(t.Context(), d.Inventory(), v.UUID); err != nil {
		t.Fatal(err)
	}
	if kernel, err := d.Partitions(d.Inventory().Name); err != nil || len(kernel) != 0 {
		t.Errorf("the kernel still has %+v (%v)", kernel, err)
	}
}

// bent runs the drive's programs, but changes what sfdisk is asked to do.
type bent struct {
	*carvetest.Drive
	bend func(command.Cmd) command.Cmd
}

func (b bent) Run(ctx context.Context, c command.Cmd) (command.Result, error) {
	return b.Runner().Run(ctx, b.bend(c))
}

// sfdisk makes another partition than asked for without an error, a smaller one
// for instance: only reading it back tells.
func TestPartitionThatIsNotAsAskedForIsNeverHandedOut(t *testing.T) {
	for name, replace := range map[string][2]string{
		"smaller":        {"size=16384", "size=8192"},
		"elsewhere":      {"start=8192", "start=16384"},
		"another number": {"1 : ", "2 : "},
	} {
		d := carvetest.NewDrive("FAKE0001", 1<<30)
		run := bent{d, func(c command.Cmd) command.Cmd {
			return c.WithStdin(strings.Replace(c.Stdin, replace[0], replace[1], 1))
		}}
		m, err := gpt.New(gpt.Config{Runner: run, Prober: media.NewProber(d.Runner(), d, d), Kernel: d, Blocks: d})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Init(t.Context(), d.Inventory()); err != nil {
			t.Fatal(err)
		}
		if v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 2)); !errors.Is(err, carve.ErrDamaged) {
			t.Errorf("%s: Create = %+v, %v; want ErrDamaged", name, v, err)
		}
		if kernel, err := d.Partitions(d.Inventory().Name); err != nil || len(kernel) != 0 {
			t.Errorf("%s: the kernel was told of it: %+v (%v)", name, kernel, err)
		}
	}
}

func TestChangeThatTouchesASiblingIsNoticed(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	if _, err := d.Manager(t).Create(t.Context(), d.Inventory(), carvetest.SliceOf("x", 1)); !errors.Is(err, carve.ErrNotInitialised) {
		t.Fatal(err)
	}
	if err := prepareSibling(t, d, d.Manager(t)); err != nil {
		t.Fatal(err)
	}
	run := bent{d, func(c command.Cmd) command.Cmd {
		if c.Stdin != "" { // the sibling goes while the new one is added
			_, _ = d.Runner().Run(t.Context(), command.New("sfdisk", "--no-reread", "--no-tell-kernel", "--delete", d.Inventory().Path, "1"))
		}
		return c
	}}
	m, err := gpt.New(gpt.Config{Runner: run, Prober: media.NewProber(d.Runner(), d, d), Kernel: d, Blocks: d})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 2)); !errors.Is(err, carve.ErrDamaged) {
		t.Errorf("Create = %v, want ErrDamaged", err)
	}
}

func TestOldDataIsFoundAtHeadMiddleAndTail(t *testing.T) {
	const units = 25
	slice := carvetest.SliceOf("a", units)
	for name, at := range map[string]int64{"head": 0, "middle": slice.SizeBytes / 2, "tail": slice.SizeBytes - 4096} {
		d := carvetest.NewDrive("FAKE0001", 1<<30)
		m := d.Manager(t)
		if err := m.Init(t.Context(), d.Inventory()); err != nil {
			t.Fatal(err)
		}
		d.Write(4<<20+at, 4096) // the first volume starts at 4 MiB
		v, err := m.Create(t.Context(), d.Inventory(), slice)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Dirty(v.StartBytes, v.SizeBytes); got != 0 || v.StartBytes != 4<<20 {
			t.Errorf("%s: %d bytes of old data in the volume at %d", name, got, v.StartBytes)
		}
	}
}

// strangeNode is a drive whose partition nodes are somebody else's.
type strangeNode struct{ *carvetest.Drive }

func (strangeNode) Number(string) (inventory.DevNum, error) {
	return inventory.DevNum{Major: 8, Minor: 1}, nil
}

func TestNodeOfAnotherDeviceIsNeverHandedOut(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	m, err := gpt.New(gpt.Config{Runner: d.Runner(), Prober: media.NewProber(d.Runner(), d, d), Kernel: d, Blocks: strangeNode{d},
		Wait: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	v, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 2))
	if err == nil || !strings.Contains(err.Error(), "8:1") {
		t.Errorf("Create = %+v, %v; want an error that names the node's number", v, err)
	}
}

// The drive behind a path changes between the probe and the reading of its table.
func TestTableOfAnotherDriveIsNeverChanged(t *testing.T) {
	d := carvetest.NewDrive("FAKE0001", 1<<30)
	if err := d.Manager(t).Init(t.Context(), d.Inventory()); err != nil {
		t.Fatal(err)
	}
	run := bent{d, func(c command.Cmd) command.Cmd {
		d.SetGPT(identity.DiskGUID("FAKE0002"), 2048, nil)
		return c
	}}
	m, err := gpt.New(gpt.Config{Runner: run, Prober: media.NewProber(d.Runner(), d, d), Kernel: d, Blocks: d})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Create(t.Context(), d.Inventory(), carvetest.SliceOf("a", 2)); !errors.Is(err, carve.ErrForeign) {
		t.Errorf("Create = %v, want ErrForeign", err)
	}
	if len(d.Entries()) != 0 {
		t.Errorf("the other drive was changed: %+v", d.Entries())
	}
}
