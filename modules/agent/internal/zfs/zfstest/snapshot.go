package zfstest

import (
	"fmt"
	"strings"
)

func (h *Host) snapshot(args []string) error {
	l, err := getopt(args, "ro:")
	if err != nil {
		return err
	}
	var made []*dataset
	for _, name := range l.operands {
		head, _, isSnap := strings.Cut(name, "@")
		if !isSnap {
			return usage("")
		}
		if bad := badName(name, true); bad != "" {
			return fail(1, "cannot create snapshot '%s': %s", name, bad)
		}
		p, of, err := h.open(head)
		if err != nil {
			return usage("%v", err)
		}
		var refusal string
		switch {
		case p.readonly:
			return fail(1, "cannot create snapshots : pool is read-only")
		case p.sets[name] != nil:
			refusal = "dataset already exists"
		case of.reserved > 0 && of.used > 1<<20 && of.used > p.available():
			refusal = "out of space" // the reservation has to be made anew for what is referenced
		}
		if refusal != "" {
			text := fmt.Sprintf("cannot create snapshot '%s': %s", name, refusal)
			if len(l.operands) > 1 {
				text += "\nno snapshots were created"
			}
			return fail(1, "%s", text)
		}
		s := &dataset{name: name, kind: "snapshot", props: map[string]string{}, volsize: of.volsize, block: of.block}
		for _, o := range l.values['o'] {
			key, value, _ := strings.Cut(o, "=")
			s.props[key] = value
		}
		made = append(made, s)
	}
	for _, s := range made {
		p, _ := h.find(s.name)
		h.add(p, s)
	}
	return nil
}

func (h *Host) clone(args []string) error {
	l, err := getopt(args, "po:")
	if err != nil {
		return err
	}
	if len(l.operands) != 2 {
		return usage("missing arguments")
	}
	source, name := l.operands[0], l.operands[1]
	p, snap, err := h.open(source)
	if err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		return fail(1, "cannot create '%s': %s", name, fmt.Sprintf(format, args...))
	}
	if p.sets[name] != nil {
		return refuse("dataset already exists")
	}
	if err := h.parents(p, name, l.flags['p'], refuse); err != nil {
		return err
	}
	head, _, _ := strings.Cut(source, "@")
	d := &dataset{name: name, kind: p.sets[head].kind, props: map[string]string{}, volsize: snap.volsize, block: snap.block, origin: source}
	for _, o := range l.values['o'] {
		if err := d.take(o, refuse); err != nil {
			return err
		}
	}
	h.add(p, d)
	return nil
}

// promote gives a clone the snapshot that it was made from and all older ones.
func (h *Host) promote(args []string) error {
	switch {
	case len(args) == 0:
		return usage("missing clone filesystem argument")
	case strings.HasPrefix(args[0], "-"):
		return usage("invalid option '%s'", args[0][1:]) // it knows no "--" either
	case len(args) > 1:
		return usage("too many arguments")
	}
	name := args[0]
	p, d, err := h.open(name)
	if err != nil {
		return err
	}
	if d.origin == "" {
		return fail(1, "cannot promote '%s': not a cloned filesystem", name)
	}
	origin := p.sets[d.origin]
	head, _, _ := strings.Cut(origin.name, "@")
	var moved []*dataset
	for _, s := range p.sorted() {
		of, id, snapshot := strings.Cut(s.name, "@")
		if !snapshot || of != head || s.order > origin.order {
			continue
		}
		if p.sets[name+"@"+id] != nil {
			return fail(1, "cannot promote '%s': conflicting snapshot '%s' from parent '%s'", name, id, origin.name)
		}
		moved = append(moved, s)
	}
	d.origin, p.sets[head].origin = p.sets[head].origin, origin.name
	for _, s := range moved {
		before := s.name
		_, id, _ := strings.Cut(before, "@")
		delete(p.sets, before)
		s.name = name + "@" + id
		p.sets[s.name] = s
		for _, other := range p.sets {
			if other.origin == before {
				other.origin = s.name
			}
		}
	}
	return nil
}

func (h *Host) hold(args []string) error {
	if len(args) != 2 {
		return usage("missing arguments")
	}
	tag, name := args[0], args[1]
	if !strings.Contains(name, "@") {
		return fail(1, "'%s' is not a snapshot", name)
	}
	_, d := h.find(name)
	switch {
	case d == nil:
		return fail(1, "cannot hold snapshot '%s': dataset does not exist", name)
	case d.holds[tag]:
		return fail(1, "cannot hold snapshot '%s': tag already exists on this dataset", name)
	}
	d.holds[tag] = true
	return nil
}

func (h *Host) release(args []string) error {
	if len(args) != 2 {
		return usage("missing arguments")
	}
	tag, name := args[0], args[1]
	p, d := h.find(name)
	if d == nil || !d.holds[tag] {
		return fail(1, "cannot release hold from snapshot '%s': no such tag on this dataset", name)
	}
	delete(d.holds, tag)
	p.reap(name)
	return nil
}
