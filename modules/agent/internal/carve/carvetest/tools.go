package carvetest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const corrupt = "The primary GPT table is corrupt, but the backup appears OK, so that will be used.\n"

func unknown(program string, args []string) (string, string, int) {
	return "", fmt.Sprintf("%s: the fake does not know the arguments %q\n", program, args), 64
}

// options takes known flags off args and returns the operands.
func options(args []string, flags ...string) (set map[string]bool, rest []string, ok bool) {
	set = map[string]bool{}
	for _, a := range args {
		switch {
		case slices.Contains(flags, a):
			set[a] = true
		case strings.HasPrefix(a, "-"):
			return nil, nil, false
		default:
			rest = append(rest, a)
		}
	}
	return set, rest, true
}

func (d *Drive) sfdisk(args []string, stdin string) (string, string, int) {
	// The options with a value; of two of them only one value is ever asked for.
	var plain []string
	number := 0
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--wipe", "--wipe-partitions":
			if i++; i == len(args) || args[i] != "never" {
				return unknown("sfdisk", args)
			}
		case "-N":
			if i++; i == len(args) {
				return unknown("sfdisk", args)
			}
			number, _ = strconv.Atoi(args[i])
		default:
			plain = append(plain, args[i])
		}
	}
	set, rest, ok := options(plain, "--json", "--no-reread", "--no-tell-kernel", "--quiet", "--append", "--delete")
	if !ok || len(rest) == 0 {
		return unknown("sfdisk", args)
	}
	if rest[0] != d.path() {
		return "", fmt.Sprintf("sfdisk: cannot open %s: No such file or directory\n", rest[0]), 1
	}
	switch {
	case set["--json"] && len(rest) == 1:
		return d.sfdiskJSON()
	case set["--delete"] && len(rest) == 2:
		return d.sfdiskDelete(rest[1], set)
	case set["--append"] && len(rest) == 1:
		return d.sfdiskAppend(stdin, set)
	case number > 0 && len(rest) == 1:
		return d.sfdiskResize(number, stdin, set)
	case len(rest) == 1:
		return d.sfdiskLabel(stdin, set)
	}
	return unknown("sfdisk", args)
}

func (d *Drive) sfdiskJSON() (string, string, int) {
	if !d.recognised() {
		return "", fmt.Sprintf("sfdisk: %s: does not contain a recognized partition table\n", d.path()), 1
	}
	var b strings.Builder
	fmt.Fprintf(&b, "{\n   \"partitiontable\": {\n      \"label\": %q,\n      \"id\": %q,\n      \"device\": %q,\n      \"unit\": \"sectors\",\n", d.label, d.id, d.path())
	if d.label == "gpt" {
		fmt.Fprintf(&b, "      \"firstlba\": %d,\n      \"lastlba\": %d,\n", d.first, d.lastUsable())
	}
	fmt.Fprintf(&b, "      \"sectorsize\": %d", d.block)
	if len(d.entries) > 0 {
		b.WriteString(",\n      \"partitions\": [\n")
		for i, n := range slices.Sorted(maps.Keys(d.entries)) {
			p := d.entries[n]
			if i > 0 {
				b.WriteString(",")
			} else {
				b.WriteString("         ")
			}
			fmt.Fprintf(&b, "{\n            \"node\": \"%sp%d\",\n            \"start\": %d,\n            \"size\": %d,\n            \"type\": %q", d.path(), n, p.Start, p.Size, p.Type)
			if p.UUID != "" {
				fmt.Fprintf(&b, ",\n            \"uuid\": %q", p.UUID)
			}
			if p.Name != "" {
				fmt.Fprintf(&b, ",\n            \"name\": %q", p.Name)
			}
			b.WriteString("\n         }")
		}
		b.WriteString("\n      ]")
	}
	b.WriteString("\n   }\n}\n")
	stderr := ""
	if d.label == "gpt" && !d.primary {
		stderr = corrupt
	}
	return b.String(), stderr, 0
}

// tell is the end of a change: the kernel reads the table unless it is told not
// to, or a partition is open.
func (d *Drive) tell(set map[string]bool) (stderr string) {
	if set["--no-tell-kernel"] || d.reread() {
		return ""
	}
	return "Re-reading the partition table failed.: Device or resource busy\n"
}

// inUse is the check that --no-reread leaves out; it sees claims, not exports.
func (d *Drive) inUse(set map[string]bool) bool { return !set["--no-reread"] && len(d.held) > 0 }

const refused = "This disk is currently in use - repartitioning is probably a bad idea.\n" +
	"Umount all file systems, and swapoff all swap partitions on this disk.\n" +
	"Use the --no-reread flag to suppress this check.\n\nsfdisk: Use the --force flag to overrule all checks.\n"

var labelScript = regexp.MustCompile(`^label: gpt\nlabel-id: ([0-9A-Fa-f-]{36})\n$`)

func (d *Drive) sfdiskLabel(stdin string, set map[string]bool) (string, string, int) {
	if d.inUse(set) {
		return "Checking that no-one is using this disk right now ... FAILED\n\n", refused, 1
	}
	m := labelScript.FindStringSubmatch(stdin)
	if m == nil {
		return "", "line 1: unsupported command\n", 1
	}
	d.label, d.id, d.first = "gpt", strings.ToUpper(m[1]), 2048*512/d.block
	d.primary, d.backup, d.pmbr = true, true, true
	d.entries = map[int]Partition{}
	return "", d.tell(set), 0
}

// entryScript is a line for one partition, with or without a number before it.
var entryScript = regexp.MustCompile(`^(?:([0-9]+) : )?(?:start=([0-9]+), )?size=([0-9]+)(?:, type=([0-9A-Fa-f-]{36}))?(?:, uuid=([0-9A-Fa-f-]{36}))?(?:, name="([^"]*)")?\n$`)

func (d *Drive) sfdiskAppend(stdin string, set map[string]bool) (string, string, int) {
	if d.inUse(set) {
		return "", refused, 1
	}
	if d.label != "gpt" || !d.recognised() {
		return "", "Failed to add #2 partition: Invalid argument\n", 1
	}
	m := entryScript.FindStringSubmatch(stdin)
	if m == nil {
		return "", "line 1: unsupported command\n", 1
	}
	number, _ := strconv.Atoi(m[1])
	if number == 0 {
		for number = 1; d.entries[number].Size > 0; number++ {
		}
	}
	if d.entries[number].Size > 0 || number > 128 {
		return "", fmt.Sprintf("Failed to add #%d partition: Invalid argument\n", number), 1
	}
	size, _ := strconv.ParseInt(m[3], 10, 64)
	p := Partition{Size: size, Type: strings.ToUpper(m[4]), UUID: strings.ToUpper(m[5]), Name: m[6]}
	if p.Type == "" {
		p.Type = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
	}
	if m[2] != "" {
		p.Start, _ = strconv.ParseInt(m[2], 10, 64)
		if end := p.Start + p.Size - 1; end > d.lastUsable() {
			return "", fmt.Sprintf("The last usable GPT sector is %d, but %d is requested.\nFailed to add #%d partition: Invalid argument\n", d.lastUsable(), end, number), 1
		}
		for _, o := range d.entries {
			if o.Start < p.Start+p.Size && p.Start < o.Start+o.Size {
				return "", fmt.Sprintf("Sector %d already used.\nFailed to add #%d partition: Numerical result out of range\n", p.Start, number), 1
			}
		}
	} else {
		// Behind the last one, cut to what is there, without an error.
		p.Start = d.first
		for _, o := range d.entries {
			p.Start = max(p.Start, o.Start+o.Size)
		}
		p.Size = min(p.Size, (d.lastUsable()/2048-1)*2048-p.Start)
	}
	d.entries[number] = p
	d.primary, d.backup = true, true
	return "", d.tell(set), 0
}

func (d *Drive) sfdiskDelete(operand string, set map[string]bool) (string, string, int) {
	n, err := strconv.Atoi(operand)
	if _, ok := d.entries[n]; err != nil || !ok || !d.recognised() {
		return "", fmt.Sprintf("sfdisk: %s: partition %s: failed to delete\n", d.path(), operand), 1
	}
	delete(d.entries, n)
	return "", d.tell(set), 0
}

var sizeScript = regexp.MustCompile(`^size=([0-9]+)\n$`)

// sfdiskResize sets the size of one partition and keeps the rest of its entry
// (measured with util-linux 2.38.1). A number that the table does not have would
// make a new partition; nobody asks for that.
func (d *Drive) sfdiskResize(n int, stdin string, set map[string]bool) (string, string, int) {
	if d.inUse(set) {
		return "", refused, 1
	}
	m := sizeScript.FindStringSubmatch(stdin)
	p, ok := d.entries[n]
	if m == nil || !ok || d.label != "gpt" || !d.recognised() {
		return unknown("sfdisk", []string{"-N", strconv.Itoa(n), stdin})
	}
	p.Size, _ = strconv.ParseInt(m[1], 10, 64)
	fits := p.Size > 0 && p.Start+p.Size-1 <= d.lastUsable()
	for i, o := range d.entries {
		fits = fits && (i == n || o.Start >= p.Start+p.Size || p.Start >= o.Start+o.Size)
	}
	if !fits {
		return "", fmt.Sprintf("Failed to resize partition #%d.\n", n), 1
	}
	d.entries[n] = p
	d.primary, d.backup = true, true
	return "", d.tell(set), 0
}

// partx works on one partition, given by -a, -d or -u and --nr.
func (d *Drive) partx(args []string, _ string) (string, string, int) {
	if len(args) != 4 || args[1] != "--nr" || args[3] != d.path() || !slices.Contains([]string{"-a", "-d", "-u"}, args[0]) {
		return unknown("partx", args)
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return unknown("partx", args)
	}
	if args[0] == "-d" {
		if d.exported[n] || d.held[n] {
			return "", fmt.Sprintf("partx: %s: error deleting partition %d\n", d.path(), n), 1
		}
		delete(d.known, n)
		return "", "", 0
	}
	if !d.recognised() {
		return "", fmt.Sprintf("partx: %s: failed to read partition table\n", d.path()), 1
	}
	p, ok := d.entries[n]
	if !ok {
		return "", "", 0 // a number that the table does not have is no error
	}
	for i, k := range d.known {
		if (i != n || args[0] == "-a") && k.Start < p.Start+p.Size && p.Start < k.Start+k.Size {
			return "", fmt.Sprintf("partx: %s: error adding partition %d\n", d.path(), n), 1
		}
	}
	if args[0] == "-u" && (d.exported[n] || d.held[n]) {
		// In place, with its device number (measured).
		if d.known[n].Start != p.Start {
			return "", fmt.Sprintf("partx: %s: error updating partition %d\n", d.path(), n), 1
		}
		d.known[n] = p
		return "", "", 0
	}
	d.learn(n, p) // -u takes one that nobody has open away and adds it again
	return "", "", 0
}

func (d *Drive) blkid(args []string, _ string) (string, string, int) {
	if len(args) != 4 || args[0] != "-p" || args[1] != "-o" || args[2] != "export" {
		return unknown("blkid", args)
	}
	if args[3] != d.path() {
		return "", "", 2
	}
	var b strings.Builder
	fmt.Fprintf(&b, "DEVNAME=%s\n", d.path())
	switch {
	case len(d.sigs) > 0:
		s := d.sigs[0]
		if s.UUID != "" {
			fmt.Fprintf(&b, "UUID=%s\n", s.UUID)
		}
		for _, line := range s.Extra {
			b.WriteString(line + "\n")
		}
		fmt.Fprintf(&b, "TYPE=%s\nUSAGE=%s\n", s.Type, s.Usage)
	case d.recognised():
		fmt.Fprintf(&b, "PTUUID=%s\nPTTYPE=%s\n", strings.ToLower(strings.TrimPrefix(d.id, "0x")), d.label)
	default:
		return "", "", 2
	}
	return b.String(), "", 0
}

func (d *Drive) wipefs(args []string, _ string) (string, string, int) {
	if len(args) != 2 || args[0] != "-J" {
		return unknown("wipefs", args)
	}
	if args[1] != d.path() {
		return "", fmt.Sprintf("wipefs: error: %s: probing initialization failed: No such file or directory\n", args[1]), 1
	}
	var out []string
	add := func(offset int64, kind, uuid, label string) {
		out = append(out, fmt.Sprintf("{\n         \"device\": %q,\n         \"offset\": \"%#x\",\n         \"type\": %q,\n         \"uuid\": %s,\n         \"label\": %s\n      }",
			d.name, offset, kind, orNull(uuid), orNull(label)))
	}
	for _, s := range d.sigs {
		add(s.Offset, s.Type, s.UUID, s.Label)
	}
	if d.label == "gpt" {
		if d.primary {
			add(d.block, "gpt", "", "")
		}
		if d.backup {
			add(d.size-d.block, "gpt", "", "")
		}
		if d.pmbr {
			add(0x1fe, "PMBR", "", "")
		}
	}
	if d.label == "dos" {
		add(0x1fe, "dos", "", "")
	}
	body := "\n"
	if len(out) > 0 {
		body = "      " + strings.Join(out, ",") + "\n"
	}
	return "{\n   \"signatures\": [\n" + body + "   ]\n}\n", "", 0
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return strconv.Quote(s)
}
