package spdk

import (
	"slices"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/internal/wire"
)

// hostParams are the parameters of the methods for one host of a subsystem.
type hostParams struct {
	NQN  string `json:"nqn"`
	Host string `json:"host"`
}

// admit puts the hosts that are missing on the allow-list.
func (s *session) admit(sub wire.Subsystem, hosts []string) error {
	for _, host := range hosts {
		if listed(&sub, host) {
			continue
		}
		if err := s.addHost(host); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) addHost(host string) error {
	return s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionLink, Object: s.object("host " + host)},
		method: "nvmf_subsystem_add_host",
		params: hostParams{s.nqn, host},
		done:   func(sub *wire.Subsystem) bool { return listed(sub, host) },
	})
}

// removeHost takes the host off the list. SPDK then waits for the host's I/O, or
// not; that it was off the list at the end of it is all that counts here.
func (s *session) removeHost(host string) error {
	return s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionUnlink, Object: s.object("host " + host)},
		method: "nvmf_subsystem_remove_host",
		params: hostParams{s.nqn, host},
		done:   func(sub *wire.Subsystem) bool { return sub != nil && !listed(sub, host) },
		drains: true,
	})
}

func (s *session) forbidAnyHost() error {
	return s.do(effect{
		change: nvmeof.Change{Action: nvmeof.ActionSet, Object: s.object("allow_any_host"), From: "true", To: "false"},
		method: "nvmf_subsystem_allow_any_host",
		params: struct {
			NQN   string `json:"nqn"`
			Allow bool   `json:"allow_any_host"`
		}{NQN: s.nqn},
		done: func(sub *wire.Subsystem) bool { return sub != nil && !sub.AllowAnyHost },
	})
}

func listed(sub *wire.Subsystem, host string) bool {
	return sub != nil && slices.ContainsFunc(sub.Hosts, func(h wire.Host) bool { return h.NQN == host })
}
