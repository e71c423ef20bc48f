package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"
)

// admit links the hosts that are not on the allow-list yet.
func (s *session) admit(sub *subsystem, hosts []string) error {
	linked := slices.Collect(maps.Values(sub.hostLinks))
	for _, host := range hosts {
		if slices.Contains(linked, host) {
			continue
		}
		dir := join("hosts", host)
		if err := s.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		name := host
		for sub.hostLinks[name] != "" {
			name += "_" // somebody gave another host's link this name
		}
		if err := s.link(dir, join(sub.dir, "allowed_hosts", name)); err != nil {
			return fmt.Errorf("admit host %s: %w", host, err)
		}
		sub.hostLinks[name] = host
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
