package zfstest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/distort-io/distort/modules/api/capacity"
)

func (h *Host) zfs(_ context.Context, args []string, _ string) (stdout, stderr string, code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(args) == 0 {
		return finish("", usage("missing command"))
	}
	switch args[0] {
	case "list":
		return finish(h.list(args[1:]))
	case "get":
		return finish(h.get(args[1:]))
	case "destroy":
		return finish(h.destroy(args[1:]))
	}
	change := map[string]func([]string) error{
		"create": h.create, "set": h.set, "inherit": h.inherit, "snapshot": h.snapshot, "clone": h.clone, "promote": h.promote,
		"hold": h.hold, "release": h.release,
	}[args[0]]
	if change == nil {
		return finish("", usage("unrecognized command '%s'", args[0]))
	}
	return finish("", change(args[1:]))
}

func (h *Host) create(args []string) error {
	l, err := getopt(args, "pnPsuvV:b:o:")
	if err != nil {
		return err
	}
	if len(l.operands) != 1 {
		return usage("%s", map[bool]string{true: "missing volume argument", false: "too many arguments"}[len(l.operands) == 0])
	}
	name := l.operands[0]
	d := &dataset{name: name, kind: "filesystem", props: map[string]string{}, block: capacity.DefaultVolBlockSize}
	if v := l.values['V']; len(v) > 0 {
		d.kind = "volume"
		if d.volsize, err = bytesOf(v[0]); err != nil {
			return fail(1, "bad volume size '%s': %v", v[0], err)
		}
	}
	first, _, _ := strings.Cut(name, "/")
	p := h.pools[first]
	switch {
	case !letterFirst.MatchString(first):
		return fail(1, "cannot open '%s': name must begin with a letter", first)
	case p == nil:
		return fail(1, "cannot open '%s': no such pool", first)
	}
	refuse := func(format string, args ...any) error {
		return fail(1, "cannot create '%s': %s", name, fmt.Sprintf(format, args...))
	}
	if bad := badName(name, false); bad != "" {
		return refuse("%s", bad)
	}
	for _, o := range l.values['o'] {
		if err := d.take(o, refuse); err != nil {
			return err
		}
	}
	if d.kind == "volume" && d.volsize == 0 {
		return refuse("volume size cannot be zero")
	}
	switch {
	case p.health == "SUSPENDED":
		return refuse("pool I/O is currently suspended")
	case p.readonly:
		return refuse("pool is read-only")
	case p.sets[name] != nil && l.flags['p']:
		return nil
	case p.sets[name] != nil:
		return refuse("dataset already exists")
	}
	if err := h.parents(p, name, l.flags['p'], refuse); err != nil {
		return err
	}
	if d.kind == "volume" {
		d.volsize = (d.volsize + d.block - 1) / d.block * d.block
		if !l.flags['s'] {
			d.reserved = reservation(d)
			if d.reserved > p.available() {
				return refuse("out of space")
			}
		}
	}
	h.add(p, d)
	return nil
}

// reservation is what a thick zvol keeps.
func reservation(d *dataset) int64 {
	bytes, err := capacity.Zvol(d.volsize, d.block)
	if err != nil {
		return d.volsize
	}
	return bytes
}

// parents makes sure that what the dataset belongs to is there.
func (h *Host) parents(p *pool, name string, makeThem bool, refuse func(string, ...any) error) error {
	for at := range name {
		if name[at] != '/' {
			continue
		}
		switch parent := p.sets[name[:at]]; {
		case parent == nil && makeThem:
			h.add(p, &dataset{name: name[:at], kind: "filesystem"})
		case parent == nil:
			return refuse("parent does not exist")
		case parent.kind != "filesystem":
			return refuse("parent is not a filesystem")
		}
	}
	return nil
}

var (
	letterFirst  = regexp.MustCompile(`^[A-Za-z]`)
	compressions = regexp.MustCompile(`^(on|off|lz4|lzjb|zle|gzip(-[1-9])?|zstd(-([1-9]|1[0-9]))?|zstd-fast.*)$`)
	userName     = regexp.MustCompile(`^[a-z0-9:+._-]+$`)
)

// take sets a property of a dataset that is being made.
func (d *dataset) take(o string, refuse func(string, ...any) error) error {
	name, value, _ := strings.Cut(o, "=")
	switch {
	case strings.Contains(name, ":"):
		return d.user(name, value, refuse)
	case name == "volblocksize":
		n, err := bytesOf(value)
		if err != nil || n < 512 || n > 16<<20 || n&(n-1) != 0 {
			return refuse("'volblocksize' must be power of 2 from 512B to 16M")
		}
		d.block = n
	case name == "compression" && !compressions.MatchString(value):
		return refuse("'compression' must be one of 'on | off | lzjb | gzip | gzip-[1-9] | zle | lz4 | zstd | zstd-[1-19] | zstd-fast | zstd-fast-[1-10,20,30,40,50,60,70,80,90,100,500,1000]'")
	case (name == "quota" || name == "refquota" || name == "canmount" || name == "mountpoint") && d.kind == "volume":
		return refuse("'%s' does not apply to datasets of this type", name)
	case !slices.Contains(native, name):
		return refuse("invalid property '%s'", name)
	}
	if n, err := bytesOf(value); err == nil && (name == "quota" || name == "refquota") {
		value = strconv.FormatInt(n, 10)
	}
	d.props[name] = value
	return nil
}

// user sets a user property.
func (d *dataset) user(name, value string, refuse func(string, ...any) error) error {
	switch {
	case len(name) > 255:
		return refuse("property name '%s' is too long", name)
	case !userName.MatchString(name):
		return refuse("invalid property '%s'", name)
	case len(value) > 8191:
		return refuse("property value too long")
	}
	d.props[name] = value
	return nil
}

func (h *Host) set(args []string) error {
	if len(args) < 2 {
		return usage("missing arguments")
	}
	name := args[len(args)-1]
	p, d, err := h.open(name)
	if err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return fail(255, "cannot set property for '%s': %s", name, fmt.Sprintf(format, args...))
	}
	if p.readonly {
		return refuse("pool is read-only")
	}
	for _, pair := range args[:len(args)-1] {
		property, value, _ := strings.Cut(pair, "=")
		switch property {
		case "volsize":
			err = h.resize(p, d, value, refuse)
		case "refreservation":
			err = p.reserve(d, value, refuse)
		case "quota", "refquota":
			err = d.limit(property, value, refuse)
		default:
			err = d.take(pair, refuse)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reserve sets a refreservation; "auto" is that of a volume which is not sparse.
func (p *pool) reserve(d *dataset, value string, refuse func(string, ...any) error) error {
	var n int64
	var err error
	switch value {
	case "none":
	case "auto":
		n = reservation(d)
	default:
		if n, err = bytesOf(value); err != nil {
			return refuse("%v", err)
		}
	}
	if n-max(d.reserved, d.used) > p.available() {
		return refuse("out of space")
	}
	d.reserved = n
	return nil
}

// limit sets a quota.
func (d *dataset) limit(property, value string, refuse func(string, ...any) error) error {
	n, err := bytesOf(value)
	switch {
	case value == "none":
		delete(d.props, property)
		return nil
	case err != nil:
		return refuse("%v", err)
	case n == 0:
		return refuse("use 'none' to disable quota/refquota")
	case n < d.used:
		return refuse("size is less than current used or reserved space")
	}
	d.props[property] = strconv.FormatInt(n, 10)
	return nil
}

// resize changes a zvol's size: larger or, without a question, smaller.
func (h *Host) resize(p *pool, d *dataset, value string, refuse func(string, ...any) error) error {
	n, err := bytesOf(value)
	switch {
	case d.kind != "volume":
		return refuse("'volsize' does not apply to datasets of this type")
	case err != nil:
		return refuse("%v", err)
	case n == 0:
		return refuse("'volsize' cannot be zero")
	case n%d.block != 0:
		return refuse("'volsize' must be a multiple of volume block size (%dK)", d.block>>10)
	}
	grown := *d
	grown.volsize = n
	if d.reserved > 0 {
		if grown.reserved = reservation(&grown); grown.reserved-d.reserved > p.available() {
			return refuse("size is greater than available space")
		}
	}
	d.volsize, d.reserved = grown.volsize, grown.reserved
	return nil
}

func (h *Host) inherit(args []string) error {
	if len(args) != 2 {
		return usage("missing arguments")
	}
	_, d, err := h.open(args[1])
	if err != nil {
		return err
	}
	delete(d.props, args[0])
	return nil
}
