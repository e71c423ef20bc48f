package kernel

import (
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
)

// ensureListeners makes the subsystem reachable on the wanted listeners and on
// no other. A port is found by its address and shared by all subsystems that
// want it. Wrong ports are left first, because they may hold the address that
// is wanted (a wildcard does). ports are all there are, and are kept up to date.
func (s *session) ensureListeners(ports *[]port, want nvmeof.Subsystem) error {
	missing := map[nvmeof.Listener]bool{}
	for _, l := range want.Listeners {
		missing[l] = true
	}
	for i := range *ports {
		p := &(*ports)[i]
		link, linked := p.linkOf(want.NQN)
		if !linked {
			continue
		}
		if l, ok := p.Listener(); ok && missing[l] {
			delete(missing, l)
			continue
		}
		if err := s.leavePort(p, link); err != nil {
			return err
		}
	}
	for _, l := range want.Listeners {
		if !missing[l] {
			continue
		}
		if err := s.listen(ports, want.NQN, l); err != nil {
			return err
		}
	}
	return nil
}

// leavePort unlinks the subsystem and removes the port if nothing else needs it.
func (s *session) leavePort(p *port, link string) error {
	if err := s.unlink(join(p.dir, "subsystems", link)); err != nil {
		return err
	}
	delete(p.links, link)
	if !s.t.ownUnused(*p) || p.gone {
		return nil
	}
	if err := s.rmdir(p.dir); err != nil {
		return err
	}
	p.gone = true
	return nil
}

// ownUnused tells whether the port serves nobody and is one that this target
// would make.
func (t *Target) ownUnused(p port) bool {
	if p.gone || len(p.links) > 0 || p.referrals || p.ID < t.ports.first || p.ID > t.ports.last {
		return false
	}
	_, ok := p.Listener()
	return ok || p.unfinished()
}

// unfinished tells that a kill came between the writes of the port's address.
func (p port) unfinished() bool { return p.Address == "" || p.Service == "" }

// listen links the subsystem to the port of the listener, and makes that port
// if there is none.
func (s *session) listen(ports *[]port, nqn string, l nvmeof.Listener) error {
	var found *port
	for i := range *ports {
		if p := &(*ports)[i]; !p.gone {
			if have, ok := p.Listener(); ok && have == l {
				found = p
				break
			}
		}
	}
	made := found == nil
	if made {
		p, err := s.makePort(*ports, l)
		if err != nil {
			return err
		}
		*ports = append(*ports, p)
		found = &(*ports)[len(*ports)-1]
	}
	err := s.serve(found, nqn)
	if err == nil {
		return nil
	}
	if made {
		// An address that cannot be served leaves no port behind. If this
		// fails too, the first error is the one that matters.
		if s.rmdir(found.dir) == nil {
			found.gone = true
		}
	}
	return listenError(l, err)
}

// serve links the subsystem to a port.
func (s *session) serve(p *port, nqn string) error {
	name := nqn
	for p.links[name] != "" {
		name += "_" // somebody gave another subsystem's link this name
	}
	if err := s.link(join("subsystems", nqn), join(p.dir, "subsystems", name)); err != nil {
		return err
	}
	p.links[name] = nqn
	return nil
}

// makePort makes a port with the listener's address under the lowest ID that
// is free, or that serves nobody: a killed call may have left such a port, with
// part of an address or with one that is not wanted any more.
func (s *session) makePort(ports []port, l nvmeof.Listener) (port, error) {
	byID := map[uint16]*port{}
	for i := range ports {
		if !ports[i].gone {
			byID[ports[i].ID] = &ports[i]
		}
	}
	for id := uint32(s.t.ports.first); id <= uint32(s.t.ports.last); id++ {
		p := port{dir: fmt.Sprintf("ports/%d", id), links: map[string]string{}}
		if old := byID[uint16(id)]; old != nil {
			if !s.t.ownUnused(*old) {
				continue
			}
			p = *old
			old.gone = true // it lives on as the copy
		} else if err := s.mkdir(p.dir); err != nil {
			return port{}, err
		}
		want := nvmeof.PortOf(uint16(id), l)
		for _, a := range []struct{ attr, from, to string }{
			{"addr_trtype", p.Transport, want.Transport},
			{"addr_adrfam", p.Family, want.Family},
			{"addr_traddr", p.Address, want.Address},
			{"addr_trsvcid", p.Service, want.Service},
		} {
			if err := s.set(join(p.dir, a.attr), a.from, a.to); err != nil {
				return port{}, err
			}
		}
		p.Port = want
		return p, nil
	}
	return port{}, fmt.Errorf("%w: no free port ID from %d to %d", nvmeof.ErrBusy, s.t.ports.first, s.t.ports.last)
}
