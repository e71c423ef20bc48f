package carvetest

import "strings"

// SetGPT puts a GPT of somebody on the medium, with sfdisk's first usable block,
// and makes the kernel read it.
func (d *Drive) SetGPT(id string, first int64, entries map[int]Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.label, d.id, d.first = "gpt", strings.ToUpper(id), first
	d.primary, d.backup, d.pmbr = true, true, true
	d.entries = map[int]Partition{}
	for n, p := range entries {
		d.entries[n] = p
	}
	d.reread()
}

// SetDOS puts a DOS label on the medium and makes the kernel read it.
func (d *Drive) SetDOS(id string, entries map[int]Partition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.label, d.id, d.entries = "dos", id, entries
	d.reread()
}

// SetSignatures puts something without a partition table on the medium.
func (d *Drive) SetSignatures(sigs ...Signature) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sigs = sigs
}

// SetHead puts first bytes on the medium that no tool knows.
func (d *Drive) SetHead(text string) { d.HeadFrom(func() string { return text }) }

// HeadFrom has the first bytes come from somebody who writes to the drive without the
// kernel.
func (d *Drive) HeadFrom(head func() string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.head = head
}

// Damage spoils a part of the GPT on the medium: "primary", "backup", or "start"
// for the first 34 blocks with the protective MBR. The kernel reads it again.
func (d *Drive) Damage(part string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch part {
	case "primary":
		d.primary = false
	case "backup":
		d.backup = false
	case "start":
		d.primary, d.pmbr = false, false
	}
	d.reread()
}

// recognised is what blkid and sfdisk make of the GPT: they fall back to the
// backup, but not without the protective MBR.
func (d *Drive) recognised() bool {
	return d.label == "dos" || d.label == "gpt" && d.pmbr && (d.primary || d.backup)
}

// lastUsable is the last block before the backup of the table: 32 blocks of
// entries (16 KiB) and one header.
func (d *Drive) lastUsable() int64 { return d.size/d.block - 2 - 16384/d.block }
