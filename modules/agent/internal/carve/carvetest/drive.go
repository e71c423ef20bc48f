// Package carvetest has a drive for tests of VolumeManagers and of what uses
// them: an in-memory medium, the kernel's view of its partitions, and the four
// programs that work on both (sfdisk, partx, blkid, wipefs), which behave as the
// recordings of the real ones say. It also has the conformance suite that every
// VolumeManager passes on the fake and on a real device.
package carvetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/distort-io/distort/modules/agent/internal/command/commandtest"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
)

// Partition is an entry in the fake's partition table, in blocks.
type Partition struct {
	Start, Size      int64
	Type, UUID, Name string
}

// Signature is something on the medium outside a GPT, as the tools would name it.
type Signature struct {
	Type   string // TYPE of blkid and type of wipefs
	Offset int64
	UUID   string
	Label  string
	// Extra are blkid's further lines, between UUID and TYPE; Usage its last one.
	Extra []string
	Usage string
}

type extent struct{ start, end int64 }

// Drive is the fake. It is safe for concurrent use.
type Drive struct {
	mu     sync.Mutex
	serial string
	name   string
	size   int64
	block  int64

	// The medium.
	label   string // "", "gpt" or "dos"
	id      string // as sfdisk prints it
	first   int64  // first usable block
	entries map[int]Partition
	primary bool // the primary copy of a GPT is whole
	backup  bool
	pmbr    bool
	sigs    []Signature
	head    func() string // the first bytes, where no tool knows them
	data    []extent      // what does not read zero, of volumes

	// The kernel.
	known    map[int]Partition
	minors   map[int]uint32
	minor    uint32
	exported map[int]bool // open without exclusive claim, as nvmet has it
	held     map[int]bool // claimed, as a mount or ZFS has it

	runner *commandtest.Runner
}

// NewDrive returns a blank drive with logical blocks of 512 bytes.
func NewDrive(serial string, size int64) *Drive {
	d := &Drive{
		serial: serial, name: "nvme3n1", size: size, block: 512,
		entries: map[int]Partition{}, known: map[int]Partition{}, minors: map[int]uint32{}, minor: 1,
		exported: map[int]bool{}, held: map[int]bool{},
	}
	d.runner = commandtest.New(map[string]commandtest.Program{
		"sfdisk": d.program(d.sfdisk), "partx": d.program(d.partx),
		"blkid": d.program(d.blkid), "wipefs": d.program(d.wipefs),
	})
	return d
}

// With4KBlocks makes the drive one with logical blocks of 4096 bytes.
func (d *Drive) With4KBlocks() *Drive {
	d.block = 4096
	return d
}

// Inventory is what a scan says of the drive.
func (d *Drive) Inventory() inventory.Drive {
	return inventory.Drive{
		Serial: d.serial, Model: "Fake", PCIAddress: "0000:00:04.0", NUMANode: -1, Controller: "nvme3",
		State: inventory.StateLive, Name: d.name, Path: d.path(), Dev: inventory.DevNum{Major: 259, Minor: 1},
		SizeBytes: d.size, BlockBytes: d.block,
	}
}

// Runner runs the fake programs, and can be told to die.
func (d *Drive) Runner() *commandtest.Runner { return d.runner }

func (d *Drive) path() string { return "/dev/" + d.name }

func (d *Drive) partName(n int) string { return d.name + "p" + strconv.Itoa(n) }

// program serialises a program with everything else that changes the drive.
func (d *Drive) program(run func(args []string, stdin string) (string, string, int)) commandtest.Program {
	return func(_ context.Context, args []string, stdin string) (string, string, int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		return run(slices.DeleteFunc(slices.Clone(args), func(s string) bool { return s == "--" }), stdin)
	}
}

// Partitions is the kernel's view, as inventory.Reader gives it.
func (d *Drive) Partitions(device string) ([]inventory.Partition, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if device != d.name {
		return nil, fmt.Errorf("no block device %s", device)
	}
	var out []inventory.Partition
	for n, p := range d.known {
		out = append(out, inventory.Partition{
			Number: n, Name: d.partName(n), Path: d.path() + "p" + strconv.Itoa(n),
			Dev: inventory.DevNum{Major: 259, Minor: d.minors[n]}, StartBytes: p.Start * d.block, SizeBytes: p.Size * d.block,
		})
	}
	slices.SortFunc(out, func(a, b inventory.Partition) int { return a.Number - b.Number })
	return out, nil
}

// UsesNow says which partitions are held; an export does not show.
func (d *Drive) UsesNow(device string) ([]inventory.Use, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []inventory.Use
	for n := range d.held {
		if device == d.name || device == d.partName(n) {
			out = append(out, inventory.Use{Device: d.partName(n), Kind: inventory.UsedByMount, Detail: "at /mnt"})
		}
	}
	return out, nil
}

// Head returns the first bytes of the medium, as far as no tool knows them.
func (d *Drive) Head(path string, n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if path != d.path() {
		return nil, fmt.Errorf("open %s: no such device", path)
	}
	out := make([]byte, n)
	if d.head != nil {
		copy(out, d.head())
	}
	return out, nil
}

// Number is the device number of a node.
func (d *Drive) Number(path string) (inventory.DevNum, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.known {
		if path == "/dev/"+d.partName(n) {
			return inventory.DevNum{Major: 259, Minor: d.minors[n]}, nil
		}
	}
	return inventory.DevNum{}, fmt.Errorf("stat %s: no such file or directory", path)
}

// IsZero tells whether a region of the whole drive reads zero.
func (d *Drive) IsZero(_ context.Context, path string, offset, length int64) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkRegion(path, offset, length); err != nil {
		return false, err
	}
	for _, e := range d.data {
		if e.start < offset+length && offset < e.end {
			return false, nil
		}
	}
	return true, nil
}

// Zero zeroes a region of the whole drive. It counts as a call of the Runner, so
// that a kill can fall on it.
func (d *Drive) Zero(_ context.Context, path string, offset, length int64) error {
	done, err := d.runner.Step()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.checkRegion(path, offset, length); err != nil {
		return err
	}
	d.punch(offset, offset+length)
	return done()
}

func (d *Drive) checkRegion(path string, offset, length int64) error {
	if path != d.path() || offset < 0 || length <= 0 || offset+length > d.size || offset%d.block != 0 || length%d.block != 0 {
		return fmt.Errorf("%d bytes at %d of %s: not a region of the drive", length, offset, path)
	}
	return nil
}

// Write puts data on the medium, as a host that uses a volume does.
func (d *Drive) Write(offset, length int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data = append(d.data, extent{offset, offset + length})
}

// punch makes a region read zero.
func (d *Drive) punch(start, end int64) {
	var out []extent
	for _, e := range d.data {
		if e.start < start && e.start < e.end {
			out = append(out, extent{e.start, min(e.end, start)})
		}
		if e.end > end {
			out = append(out, extent{max(e.start, end), e.end})
		}
	}
	d.data = out
}

// Dirty is the number of bytes in a region that do not read zero.
func (d *Drive) Dirty(offset, length int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var n int64
	for _, e := range d.data {
		n += max(0, min(e.end, offset+length)-max(e.start, offset))
	}
	return n
}

// Export opens a partition as nvmet does: nothing shows it, but the kernel does
// not let the partition go.
func (d *Drive) Export(number int) { d.set(d.exported, number, true) }

// Unexport closes it.
func (d *Drive) Unexport(number int) { d.set(d.exported, number, false) }

// Hold claims a partition as a mount does.
func (d *Drive) Hold(number int) { d.set(d.held, number, true) }

// Release ends it.
func (d *Drive) Release(number int) { d.set(d.held, number, false) }

func (d *Drive) set(m map[int]bool, n int, on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if on {
		m[n] = true
		return
	}
	delete(m, n)
}

// busy says whether the kernel refuses to read the table again.
func (d *Drive) busy() bool { return len(d.exported)+len(d.held) > 0 }

// Reread makes the kernel read the table, as a reboot or udev does. It answers
// false when a partition is open.
func (d *Drive) Reread() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reread()
}

func (d *Drive) reread() bool {
	if d.busy() {
		return false
	}
	d.known = map[int]Partition{}
	if d.label == "dos" || d.label == "gpt" && d.primary && d.pmbr {
		for n, p := range d.entries {
			d.learn(n, p)
		}
	}
	return true
}

func (d *Drive) learn(n int, p Partition) {
	d.minor++
	d.known[n], d.minors[n] = p, d.minor
}

// Entries is the table on the medium, by number.
func (d *Drive) Entries() map[int]Partition {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[int]Partition{}
	for n, p := range d.entries {
		out[n] = p
	}
	return out
}
