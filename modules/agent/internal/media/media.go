// Package media tells what is on a drive before anything is written to it: it is
// blank, it carries the partition table that DISTORT wrote to exactly this drive,
// or it is somebody else's and refused. Nothing in here writes or wipes
// (design.md §4: a drive is blank only when blkid and wipefs both say so, because
// a table of which only the backup is left looks empty to blkid).
package media

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/distort-io/distort/modules/agent/internal/command"
	"github.com/distort-io/distort/modules/agent/internal/inventory"
	"github.com/distort-io/distort/modules/api/identity"
)

// Verdict is what a drive may be used for.
type Verdict string

// Verdicts. Only a Blank drive may be written to first, and only a Distort drive
// carved.
const (
	Blank   Verdict = "Blank"
	Distort Verdict = "Distort"
	// Damaged: DISTORT's table, of which a copy is broken, or a drive that is blank
	// although the kernel shows partitions. A person must look at it.
	Damaged Verdict = "Damaged"
	// Foreign: signatures that DISTORT did not write.
	Foreign Verdict = "Foreign"
	// Blobstore: SPDK's format of logical volume stores and nothing else. Whose it is,
	// only SPDK can tell: the store's name is inside.
	Blobstore Verdict = "Blobstore"
	// Unreadable: the tools could not tell.
	Unreadable Verdict = "Unreadable"
)

// Signature is something a tool recognised on the drive.
type Signature struct {
	Type   string // as wipefs and blkid name it: gpt, PMBR, ext4, LVM2_member, …
	Offset int64  // in bytes; -1 when unknown
	UUID   string
	Label  string
}

func (s Signature) String() string {
	var b strings.Builder
	b.WriteString(s.Type)
	if s.Offset >= 0 {
		fmt.Fprintf(&b, " at %#x", s.Offset)
	}
	if s.UUID != "" {
		b.WriteString(" UUID " + s.UUID)
	}
	if s.Label != "" {
		fmt.Fprintf(&b, " label %q", s.Label)
	}
	return b.String()
}

// Finding is the outcome of a probe.
type Finding struct {
	Verdict    Verdict
	Signatures []Signature
	// Message says what was found and why it has this verdict, for a condition.
	Message string
	// Err is why the drive is Unreadable.
	Err error
}

// Kernel answers which partitions the kernel has of a block device.
type Kernel interface {
	Partitions(device string) ([]inventory.Partition, error)
}

// Blocks reads block devices.
type Blocks interface {
	// Head returns the first n bytes of the device.
	Head(path string, n int) ([]byte, error)
}

// Prober probes drives with blkid and wipefs, and looks itself for what these do not
// know.
type Prober struct {
	run    command.Runner
	kernel Kernel
	blocks Blocks
}

// NewProber returns a Prober that starts its programs through run.
func NewProber(run command.Runner, kernel Kernel, blocks Blocks) *Prober {
	return &Prober{run: run, kernel: kernel, blocks: blocks}
}

// blobstore starts a drive with SPDK's format (spdk_bs_super_block). Neither blkid
// nor wipefs knows it: to them such a drive is blank.
const blobstore = "SPDKBLOB"

// Probe looks at the whole drive. It reads the medium, so it may take as long as
// the drive does.
func (p *Prober) Probe(ctx context.Context, d inventory.Drive) Finding {
	low, err := p.blkid(ctx, d.Path)
	if err != nil {
		return unreadable(err)
	}
	// wipefs second: it fails for a device that is gone, which blkid does not tell
	// from an empty one.
	sigs, err := p.wipefs(ctx, d.Path)
	if err != nil {
		return unreadable(err)
	}
	parts, err := p.kernel.Partitions(d.Name)
	if err != nil {
		return unreadable(err)
	}
	head, err := p.blocks.Head(d.Path, len(blobstore))
	if err != nil {
		return unreadable(err)
	}
	if string(head) == blobstore {
		sigs = append(sigs, Signature{Type: blobstore})
	}
	return judge(d, low, sigs, parts)
}

func unreadable(err error) Finding {
	return Finding{Verdict: Unreadable, Err: err, Message: "the drive cannot be probed: " + err.Error()}
}

// judge is the rule. It is pure, so that each case is a row in a table.
func judge(d inventory.Drive, low lowLevel, sigs []Signature, parts []inventory.Partition) Finding {
	all := slices.Clone(sigs)
	if low.fsType != "" && !has(sigs, low.fsType) {
		all = append(all, Signature{Type: low.fsType, Offset: -1, UUID: low.uuid, Label: low.label})
	}
	if low.ptType != "" && !has(sigs, low.ptType) {
		all = append(all, Signature{Type: low.ptType, Offset: -1, UUID: low.ptUUID})
	}
	f := Finding{Signatures: all}
	own := identity.DiskGUID(d.Serial)
	switch {
	case len(all) == 0 && !low.ambiguous && len(parts) == 0:
		f.Verdict = Blank
		f.Message = "neither blkid nor wipefs finds a signature"
	case len(all) == 1 && all[0].Type == blobstore && !low.ambiguous && len(parts) == 0:
		f.Verdict = Blobstore
		f.Message = "the drive has an SPDK blobstore"
	case len(all) == 0 && !low.ambiguous:
		f.Verdict = Damaged
		f.Message = fmt.Sprintf("the medium is blank but the kernel shows %d partitions (%s …); the table was lost, or another host wrote to the drive", len(parts), parts[0].Name)
	case low.ambiguous || low.fsType != "" || low.ptType != "gpt" || !strings.EqualFold(low.ptUUID, own) || !onlyTable(sigs):
		f.Verdict = Foreign
		f.Message = "the drive carries what DISTORT did not write: " + describe(all, low)
	default:
		f.Verdict, f.Message = judgeTable(d, sigs, own)
	}
	return f
}

// judgeTable tells an intact table of ours from a damaged one. sfdisk and blkid
// fall back to the backup without a word in their exit code, while the kernel
// shows no partition: only wipefs tells which copies are there.
func judgeTable(d inventory.Drive, sigs []Signature, own string) (Verdict, string) {
	block := d.BlockBytes
	if block == 0 {
		block = inventory.SectorBytes
	}
	var broken []string
	if !at(sigs, "gpt", block) {
		broken = append(broken, "the primary table is damaged")
	}
	if !at(sigs, "gpt", d.SizeBytes-block) {
		broken = append(broken, "the backup table is damaged or not at the end of the drive")
	}
	if !has(sigs, "PMBR") {
		broken = append(broken, "the protective MBR is missing")
	}
	if len(broken) > 0 {
		return Damaged, fmt.Sprintf("DISTORT's partition table %s: %s; repair it with sgdisk before DISTORT uses the drive again", own, strings.Join(broken, ", "))
	}
	return Distort, "the drive has DISTORT's partition table " + own
}

func onlyTable(sigs []Signature) bool {
	for _, s := range sigs {
		if s.Type != "gpt" && s.Type != "PMBR" {
			return false
		}
	}
	return true
}

func has(sigs []Signature, kind string) bool {
	for _, s := range sigs {
		if s.Type == kind {
			return true
		}
	}
	return false
}

func at(sigs []Signature, kind string, offset int64) bool {
	for _, s := range sigs {
		if s.Type == kind && s.Offset == offset {
			return true
		}
	}
	return false
}

func describe(sigs []Signature, low lowLevel) string {
	var out []string
	for _, s := range sigs {
		out = append(out, s.String())
	}
	if low.ambiguous {
		out = append(out, "more than one kind of signature at once (blkid)")
	}
	if low.ptUUID != "" && low.ptType != "" {
		out = append(out, fmt.Sprintf("%s table %s", low.ptType, low.ptUUID))
	}
	return strings.Join(out, ", ")
}
