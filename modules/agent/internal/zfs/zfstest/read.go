package zfstest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// finish turns what a subcommand found into what its program answers.
func finish(out string, err error) (stdout, stderr string, code int) {
	if err == nil {
		return out, "", 0
	}
	f := err.(*failure) //nolint:errorlint // subcommands return nothing else
	return out, f.text + "\n", f.code
}

func (h *Host) zpool(_ context.Context, args []string, _ string) (stdout, stderr string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(args) == 0 {
		return finish("", usage("missing command"))
	}
	switch args[0] {
	case "list":
		return finish(h.poolList(args[1:]))
	case "get":
		return finish(h.poolGet(args[1:]))
	}
	return finish("", usage("unrecognized command '%s'", args[0]))
}

func (h *Host) poolList(args []string) (string, error) {
	l, err := getopt(args, "Hpo:vPgL")
	if err != nil {
		return "", err
	}
	names := l.operands
	if len(names) == 0 {
		for name := range h.pools {
			names = append(names, name)
		}
		slices.Sort(names)
	}
	columns := []string{"name", "size", "allocated", "free", "checkpoint", "expandsize", "fragmentation", "capacity", "dedupratio", "health", "altroot"}
	if o := l.values['o']; len(o) > 0 {
		columns = strings.Split(o[0], ",")
	}
	var out strings.Builder
	for _, name := range names {
		p := h.pools[name]
		if p == nil {
			return out.String(), fail(1, "cannot open '%s': no such pool", name)
		}
		var cells []string
		for _, c := range columns {
			cells = append(cells, p.property(c))
		}
		fmt.Fprintln(&out, strings.Join(cells, "\t"))
		if l.flags['v'] {
			for _, disk := range p.disks {
				fmt.Fprintf(&out, "\t%s\t%d\t165888\t%d\t-\t-\t1\t0\t-\tONLINE\n", disk, p.total, p.available())
			}
		}
	}
	return out.String(), nil
}

// property is one of the pool's, as zpool prints it.
func (p *pool) property(name string) string {
	switch name {
	case "name":
		return p.name
	case "guid":
		return p.guid
	case "health":
		return p.health
	case "readonly":
		return map[bool]string{true: "on", false: "off"}[p.readonly]
	case "size":
		return strconv.FormatInt(p.total, 10)
	case "allocated", "alloc":
		return strconv.FormatInt(p.total-p.available(), 10)
	case "free":
		return strconv.FormatInt(p.available(), 10)
	case "fragmentation", "capacity":
		return "0"
	case "dedupratio":
		return "1.00"
	case "failmode":
		return "wait"
	case "multihost":
		return "off"
	}
	return "-"
}

func (h *Host) poolGet(args []string) (string, error) {
	l, err := getopt(args, "Hpo:")
	if err != nil {
		return "", err
	}
	if len(l.operands) < 2 {
		return "", usage("missing property argument")
	}
	name := l.operands[1]
	p := h.pools[name]
	if p == nil {
		return "", fail(1, "Cannot get properties of %s: no such pool available.", name)
	}
	var out strings.Builder
	for _, property := range strings.Split(l.operands[0], ",") {
		source := "-"
		if property == "failmode" || property == "multihost" {
			source = "default"
		}
		writeCells(&out, l, []string{name, property, p.property(property), source})
	}
	return out.String(), nil
}

// writeCells prints name, property, value and source, or those that -o asks for.
func writeCells(out *strings.Builder, l line, cells []string) {
	if o := l.values['o']; len(o) > 0 {
		var chosen []string
		for _, field := range strings.Split(o[0], ",") {
			if at := slices.Index([]string{"name", "property", "value", "source"}, field); at >= 0 {
				chosen = append(chosen, cells[at])
			}
		}
		cells = chosen
	}
	fmt.Fprintln(out, strings.Join(cells, "\t"))
}

// open finds the dataset of an operand, as libzfs does when it opens one.
func (h *Host) open(name string) (*pool, *dataset, error) {
	p, d := h.find(name)
	switch {
	case p != nil && p.health == "SUSPENDED":
		return nil, nil, fail(1, "cannot open '%s': pool I/O is currently suspended", name)
	case d == nil:
		return nil, nil, fail(1, "cannot open '%s': dataset does not exist", name)
	}
	return p, d, nil
}

// chosen are the datasets that the operands, -r, -d and -t name. What exists is
// returned also when something does not.
func (h *Host) chosen(l line, operands []string, types string) ([]*dataset, error) {
	kinds := strings.Split(types, ",")
	if t := l.values['t']; len(t) > 0 {
		kinds = strings.Split(t[0], ",")
	}
	wanted := func(d *dataset) bool { return slices.Contains(kinds, "all") || slices.Contains(kinds, d.kind) }
	depth := 0
	if l.flags['r'] {
		depth = 1000
	}
	if d := l.values['d']; len(d) > 0 {
		n, err := strconv.Atoi(d[0])
		if err != nil {
			return nil, usage("%s is not an integer", d[0])
		}
		depth = n
	}
	if len(operands) == 0 {
		depth = 1000
		for name := range h.pools {
			operands = append(operands, name)
		}
		slices.Sort(operands)
	}
	var out []*dataset
	var missing error
	for _, name := range operands {
		p, d, err := h.open(name)
		if err != nil {
			missing = err
			continue
		}
		if depth == 0 || wanted(d) {
			out = append(out, d)
		}
		for _, child := range p.below(name) {
			levels := strings.Count(child.name[len(name):], "/") + strings.Count(child.name[len(name):], "@")
			if levels <= depth && wanted(child) {
				out = append(out, child)
			}
		}
	}
	return out, missing
}

func (h *Host) list(args []string) (string, error) {
	l, err := getopt(args, "Hpro:d:t:s:S:")
	if err != nil {
		return "", err
	}
	columns := []string{"name", "used", "available", "referenced", "mountpoint"}
	if o := l.values['o']; len(o) > 0 {
		columns = strings.Split(o[0], ",")
	}
	sets, err := h.chosen(l, l.operands, "filesystem,volume")
	var out strings.Builder
	for _, d := range sets {
		var cells []string
		for _, c := range columns {
			value, _ := h.property(d, c)
			cells = append(cells, value)
		}
		fmt.Fprintln(&out, strings.Join(cells, "\t"))
	}
	return out.String(), err
}

func (h *Host) get(args []string) (string, error) {
	l, err := getopt(args, "Hpro:d:t:s:")
	if err != nil {
		return "", err
	}
	if len(l.operands) == 0 {
		return "", usage("missing property argument")
	}
	names := strings.Split(l.operands[0], ",")
	for _, name := range names {
		if !strings.Contains(name, ":") && !slices.Contains(native, name) {
			return "", usage("bad property list: invalid property '%s'", name)
		}
	}
	sets, err := h.chosen(l, l.operands[1:], "filesystem,volume,snapshot")
	var out strings.Builder
	for _, d := range sets {
		for _, name := range names {
			value, source := h.property(d, name)
			writeCells(&out, l, []string{d.name, name, value, source})
		}
	}
	return out.String(), err
}

// native are the properties that the model knows.
var native = []string{
	"name", "type", "guid", "used", "available", "referenced", "volsize", "volblocksize", "refreservation", "reservation", "quota", "refquota",
	"origin", "clones", "userrefs", "defer_destroy", "mounted", "mountpoint", "canmount", "compression", "volmode", "creation", "logicalused", "keystatus", "encryption",
}

// property is the value of a dataset's property, and where it comes from.
func (h *Host) property(d *dataset, name string) (value, source string) {
	p, _ := h.find(d.name)
	number := func(n int64, where string) (string, string) { return strconv.FormatInt(n, 10), where }
	volume := d.kind == "volume"
	switch name {
	case "name":
		return d.name, "-"
	case "type":
		return d.kind, "-"
	case "guid":
		return d.guid, "-"
	case "used":
		return number(max(d.used, d.reserved), "-")
	case "available", "avail":
		return number(p.available()+max(0, d.reserved-d.used), "-")
	case "referenced", "refer":
		return number(d.used, "-")
	case "logicalused":
		return number(d.used/2, "-")
	case "reservation":
		return "0", "default"
	case "creation":
		return strconv.Itoa(1796013000 + d.order), "-"
	case "mounted":
		if d.kind != "filesystem" {
			return "-", "-"
		}
		return map[bool]string{true: "yes", false: "no"}[strings.HasPrefix(d.props["mountpoint"], "/")], "-"
	case "origin":
		if d.origin != "" {
			return d.origin, "-"
		}
		return "-", "-"
	case "volsize":
		if head, _, _ := strings.Cut(d.name, "@"); p.sets[head].kind != "volume" {
			return "-", "-"
		}
	case "volblocksize", "refreservation":
		if !volume {
			return "-", "-"
		}
	case "clones":
		if d.kind == "snapshot" {
			return orDash(strings.Join(p.clones(d.name), ",")), "-"
		}
		return "-", "-"
	case "userrefs":
		if d.kind == "snapshot" {
			return strconv.Itoa(len(d.holds)), "-"
		}
		return "-", "-"
	case "defer_destroy":
		if d.kind == "snapshot" {
			return map[bool]string{true: "on", false: "off"}[d.deferred], "-"
		}
		return "-", "-"
	}
	switch name {
	case "volsize":
		return number(d.volsize, "local")
	case "volblocksize":
		if _, set := d.props[name]; set {
			return number(d.block, "local")
		}
		return number(d.block, "default")
	case "refreservation":
		if d.reserved > 0 {
			return number(d.reserved, "local")
		}
		return "0", "default"
	}
	if value, set := d.props[name]; set {
		return value, "local"
	}
	return h.inherited(p, d, name)
}

// inherited is the value of a user property of the nearest parent that has it.
func (h *Host) inherited(p *pool, d *dataset, name string) (value, source string) {
	if strings.Contains(name, ":") {
		parent, _, _ := strings.Cut(d.name, "@")
		for parent != "" {
			if value, set := p.sets[parent].props[name]; set {
				return value, "inherited from " + parent
			}
			at := strings.LastIndexByte(parent, '/')
			parent = parent[:max(at, 0)]
		}
		return "-", "-"
	}
	switch name {
	case "quota", "refquota":
		return "0", "default"
	case "compression":
		return "on", "default"
	}
	return "-", "-"
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
