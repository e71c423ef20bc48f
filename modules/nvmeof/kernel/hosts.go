package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
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
