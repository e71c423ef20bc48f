package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof"
)

// fence is the sequence of design.md §6, step by step, and what was observed.
// Its methods are the steps; Revoke and Ensure call them in their orders.
type fence struct {
	*session
	sub      *subsystem
	evidence nvmeof.Evidence
}

func (s *session) newFence(sub *subsystem, hosts []string) *fence {
	return &fence{session: s, sub: sub, evidence: nvmeof.Evidence{NQN: sub.NQN, Hosts: hosts}}
}

// unlink takes the hosts off the allow-list and reads the list back.
func (f *fence) unlink() error {
	if f.sub.AllowAnyHost {
		if err := f.set(join(f.sub.dir, "attr_allow_any_host"), "1", "0"); err != nil {
			return err
		}
	}
	list := join(f.sub.dir, "allowed_hosts")
	for name, host := range f.sub.hostLinks {
		if !slices.Contains(f.evidence.Hosts, host) {
			continue
		}
		if err := f.session.unlink(join(list, name)); err != nil {
			return err
		}
		delete(f.sub.hostLinks, name)
	}

	r := reader{t: f.t}
	anyHost := r.attr(join(f.sub.dir, "attr_allow_any_host"))
	links := r.links(list)
	if r.err != nil {
		return fmt.Errorf("read the allow-list back: %w", r.err)
	}
	f.evidence.AllowedHosts = []string{}
	for _, host := range links {
		f.evidence.AllowedHosts = append(f.evidence.AllowedHosts, host)
		if slices.Contains(f.evidence.Hosts, host) {
			return fmt.Errorf("%w: host %s is on the allow-list again", nvmeof.ErrBusy, host)
		}
	}
	slices.Sort(f.evidence.AllowedHosts)
	if anyHost != "0" {
		return fmt.Errorf("%w: attr_allow_any_host is %q again", nvmeof.ErrBusy, anyHost)
	}
	f.evidence.UnlinkedAt = f.t.now()
	return nil
}

// drain disables every namespace. It writes also where "enable" reads 0: that
// is so from the moment a drain begins, and only the write waits for its end.
func (f *fence) drain() error {
	f.evidence.Drained = nil
	for i := range f.sub.namespaces {
		ns := &f.sub.namespaces[i]
		d := nvmeof.Drain{NSID: ns.NSID, DevicePath: ns.DevicePath, StartedAt: f.t.now()}
		if err := f.disable(ns); err != nil {
			return err
		}
		d.FinishedAt = f.t.now()
		f.evidence.Drained = append(f.evidence.Drained, d)
	}
	return nil
}

// disable drains one namespace and reads back that it is disabled.
func (s *session) disable(ns *namespace) error {
	enable := join(ns.dir, "enable")
	if err := s.write(nvmeof.ActionDisable, enable, "", "0"); err != nil {
		return err
	}
	r := reader{t: s.t}
	if v := r.attr(enable); r.err != nil || v != "0" {
		return errors.Join(fmt.Errorf("%w: %s reads %q after 0 was written", nvmeof.ErrBusy, enable, v), r.err)
	}
	ns.Enabled = false
	return nil
}

// disconnect ends every controller of the subsystem: the kernel does so when
// attr_qid_max is written, with whatever value.
func (f *fence) disconnect() error {
	if f.sub.qidMax == "" {
		return fmt.Errorf("%w: this kernel's subsystems have no attr_qid_max, so controllers cannot be ended", nvmeof.ErrUnsupported)
	}
	if err := f.write(nvmeof.ActionDisconnect, join(f.sub.dir, "attr_qid_max"), "", f.sub.qidMax); err != nil {
		return err
	}
	if err := f.wait(f.t.settle); err != nil {
		return err
	}
	f.evidence.DisconnectedAt = f.t.now()
	return nil
}

// forgetHosts removes the directories of the fenced hosts where nothing else
// uses them.
func (f *fence) forgetHosts() error {
	for _, host := range f.evidence.Hosts {
		if err := f.forgetHost(host); err != nil {
			return err
		}
	}
	return nil
}

// forgetHost removes a host's directory unless a subsystem links it or it
// carries a key, which somebody put there.
func (s *session) forgetHost(host string) error {
	dir := join("hosts", host)
	r := reader{t: s.t}
	if key := r.optional(join(dir, "dhchap_key")); r.err != nil || key != "" {
		return r.err
	}
	err := s.rmdir(dir)
	if errors.Is(err, syscall.EBUSY) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
