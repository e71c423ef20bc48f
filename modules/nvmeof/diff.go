package nvmeof

import (
	"fmt"
	"maps"
	"slices"
)

// Difference is one way in which a State is not what a Subsystem asks for.
type Difference struct {
	Field string `json:"field"`
	Want  string `json:"want"`
	Got   string `json:"got"`
}

// String returns the difference as one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: want %q, got %q", d.Field, d.Want, d.Got)
}

const absent = "absent"

// Diff compares in memory. An empty result means that Ensure(want) would
// change nothing, so that a caller with many subsystems can List once and call
// Ensure only where it is needed.
func Diff(want Subsystem, got State) []Difference {
	var d differences
	d.compare("nqn", want.NQN, got.NQN)
	d.compare("serial", want.Serial, got.Serial)
	if want.Model != "" {
		d.compare("model", want.Model, got.Model)
	}
	d.compare("allowAnyHost", "false", fmt.Sprint(got.AllowAnyHost))
	d.sets("allowedHosts", set(want.AllowedHosts), set(got.AllowedHosts))
	d.sets("listeners", listenerSet(want.Listeners), portSet(got.Ports))

	have := map[uint32]NamespaceState{}
	for _, ns := range got.Namespaces {
		field := fmt.Sprintf("namespaces[%d]", ns.NSID)
		if _, twice := have[ns.NSID]; twice {
			d = append(d, Difference{Field: field, Want: absent, Got: "a second directory for this nsid"})
		}
		have[ns.NSID] = ns
	}
	for _, ns := range want.Namespaces {
		field := fmt.Sprintf("namespaces[%d]", ns.NSID)
		is, ok := have[ns.NSID]
		delete(have, ns.NSID)
		if !ok {
			d = append(d, Difference{Field: field, Want: ns.DevicePath, Got: absent})
			continue
		}
		d.compare(field+".devicePath", ns.DevicePath, is.DevicePath)
		d.compare(field+".uuid", ns.UUID.String(), is.UUID.String())
		d.compare(field+".nguid", ns.NGUID.String(), is.NGUID.String())
		d.compare(field+".enabled", "true", fmt.Sprint(is.Enabled))
	}
	for _, nsid := range slices.Sorted(maps.Keys(have)) {
		d = append(d, Difference{Field: fmt.Sprintf("namespaces[%d]", nsid), Want: absent, Got: have[nsid].DevicePath})
	}
	return d
}

type differences []Difference

func (d *differences) compare(field, want, got string) {
	if want != got {
		*d = append(*d, Difference{Field: field, Want: want, Got: got})
	}
}

func (d *differences) sets(field string, want, got map[string]bool) {
	for _, v := range slices.Sorted(maps.Keys(want)) {
		if !got[v] {
			*d = append(*d, Difference{Field: field, Want: v, Got: absent})
		}
	}
	for _, v := range slices.Sorted(maps.Keys(got)) {
		if !want[v] {
			*d = append(*d, Difference{Field: field, Want: absent, Got: v})
		}
	}
}

func set(values []string) map[string]bool {
	m := map[string]bool{}
	for _, v := range values {
		m[v] = true
	}
	return m
}

func listenerSet(listeners []Listener) map[string]bool {
	m := map[string]bool{}
	for _, l := range listeners {
		m[l.String()] = true
	}
	return m
}

func portSet(ports []Port) map[string]bool {
	m := map[string]bool{}
	for _, p := range ports {
		if l, ok := p.Listener(); ok {
			m[l.String()] = true
		} else {
			m[fmt.Sprintf("port %d (%s %s %s %s)", p.ID, p.Transport, p.Family, p.Address, p.Service)] = true
		}
	}
	return m
}
