package zfstest

import (
	"fmt"
	"strings"
)

func (h *Host) destroy(args []string) (string, error) {
	l, err := getopt(args, "dfnpRrv")
	if err != nil {
		return "", err
	}
	switch len(l.operands) {
	case 0:
		return "", usage("missing dataset argument")
	case 1:
	default:
		return "", usage("too many arguments")
	}
	name := l.operands[0]
	if strings.Contains(name, "@") {
		return "", h.destroySnapshots(l, name)
	}
	p, d, err := h.open(name)
	if err != nil {
		return "", err
	}
	children := p.below(name)
	if err := p.undestroyable(l, d, children); err != nil {
		return "", err
	}
	if l.flags['n'] {
		var out strings.Builder
		for _, c := range append(children, d) {
			fmt.Fprintf(&out, "destroy\t%s\n", c.name)
		}
		return out.String(), nil
	}
	for _, c := range children {
		delete(p.sets, c.name)
	}
	delete(p.sets, name)
	p.reap(d.origin)
	return "", nil
}

// undestroyable says why a dataset and what belongs to it cannot go.
func (p *pool) undestroyable(l line, d *dataset, children []*dataset) error {
	switch {
	case p.readonly:
		return fail(1, "cannot destroy '%s': pool is read-only", d.name)
	case d.name == p.name:
		return fail(1, "cannot destroy '%[1]s': operation does not apply to pools\nuse 'zfs destroy -r %[1]s' to destroy all datasets in the pool\nuse 'zpool destroy %[1]s' to destroy the pool itself", d.name)
	case len(children) > 0 && !l.flags['r']:
		return fail(1, "cannot destroy '%s': %s has children\nuse '-r' to destroy the following datasets:\n%s", d.name, d.kind, names(children))
	}
	for _, c := range children {
		if clones := p.clones(c.name); len(clones) > 0 {
			return fail(1, "cannot destroy '%s': %s has dependent clones\nuse '-R' to destroy the following datasets:\n%s", d.name, d.kind, strings.Join(clones, "\n"))
		}
		if len(c.holds) > 0 {
			return held(c.name)
		}
	}
	if d.open {
		return fail(1, "cannot destroy '%s': dataset is busy", d.name)
	}
	return nil
}

func held(name string) error {
	return fail(1, "cannot destroy snapshot %[1]s: it's being held. Run 'zfs holds -r %[1]s' to see holders.", name)
}

func names(sets []*dataset) string {
	var out []string
	for _, d := range sets {
		out = append(out, d.name)
	}
	return strings.Join(out, "\n")
}

// destroySnapshots destroys the snapshots of one dataset, which commas part.
func (h *Host) destroySnapshots(l line, name string) error {
	head, list, _ := strings.Cut(name, "@")
	p, _, err := h.open(head)
	if err != nil {
		return err
	}
	var found []*dataset
	for _, s := range strings.Split(list, ",") {
		if d := p.sets[head+"@"+s]; d != nil {
			found = append(found, d)
		}
	}
	if len(found) == 0 {
		return fail(1, "could not find any snapshots to destroy; check snapshot names.")
	}
	for _, d := range found {
		clones := p.clones(d.name)
		switch {
		case l.flags['d'] && (len(clones) > 0 || len(d.holds) > 0):
			d.deferred = true
			continue
		case len(clones) > 0:
			return fail(1, "%s", fmt.Sprintf("cannot destroy '%s': snapshot has dependent clones\nuse '-R' to destroy the following datasets:\n%s", d.name, strings.Join(clones, "\n")))
		case len(d.holds) > 0:
			return held(d.name)
		}
		delete(p.sets, d.name)
	}
	return nil
}

// reap ends a snapshot whose destruction was deferred, when nothing needs it any
// more.
func (p *pool) reap(name string) {
	if d := p.sets[name]; d != nil && d.deferred && len(d.holds) == 0 && len(p.clones(name)) == 0 {
		delete(p.sets, name)
	}
}
