package spdk_test

import (
	"fmt"
	"testing"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest/spdkfake"
	"github.com/distort-io/distort/modules/nvmeof/spdk"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

func TestFakeConforms(t *testing.T) {
	for name, version := range map[string][2]int{"v26.05": {26, 5}, "v26.01": {26, 1}} {
		t.Run(name, func(t *testing.T) {
			fake := start(t, spdkfake.WithVersion(version[0], version[1]))
			c := client(t, fake)
			nvmeoftest.RunConformance(t, nvmeoftest.Env{
				Target:    spdk.New(c),
				Devices:   []string{diskA, diskB},
				Listeners: []nvmeof.Listener{portA, portB, mustListener("rdma://127.0.0.1:4421")},
				Damage:    damage(c, "B"),
				Connect: func(host, nqn string, l nvmeof.Listener) (func() error, error) {
					h, err := fake.Connect(host, nqn, l)
					if err != nil {
						return nil, err
					}
					return func() error { h.Disconnect(); return nil }, nil
				},
			})
			states, err := spdk.New(c).List(t.Context())
			if err != nil || len(states) > 0 {
				t.Errorf("left behind: %v, %v", states, err)
			}
		})
	}
}

// damage are ways in which somebody else changes a subsystem whose one namespace is
// another bdev than spare.
func damage(c *rpc.Client, spare string) map[string]func(*testing.T, nvmeof.Subsystem) {
	const stranger = "nqn.2026-01.io.distort.conformance:host-x"
	other := nvmeof.DeriveUUID("conformance", "other")
	hurt := func(calls ...string) func(*testing.T, nvmeof.Subsystem) {
		return func(t *testing.T, want nvmeof.Subsystem) {
			l := want.Listeners[0]
			ns := want.Namespaces[0]
			bdev := ns.DevicePath[len(spdk.DevicePath("")):]
			address := fmt.Sprintf(`{"trtype":"TCP","adrfam":"IPv4","traddr":%q,"trsvcid":"%d"}`, l.Address, l.Port)
			for _, name := range calls {
				params, ok := map[string]string{
					"nvmf_subsystem_remove_ns":       `,"nsid":1`,
					"nvmf_subsystem_add_host":        `,"host":"` + stranger + `"`,
					"nvmf_subsystem_remove_host":     `,"host":"` + want.AllowedHosts[0] + `"`,
					"nvmf_subsystem_allow_any_host":  `,"allow_any_host":true`,
					"nvmf_subsystem_remove_listener": `,"listen_address":` + address,
					"too much":                       fmt.Sprintf(`,"namespace":{"nsid":9,"bdev_name":%q}`, spare),
					"wrong bdev":                     fmt.Sprintf(`,"namespace":{"nsid":1,"bdev_name":%q,"uuid":"%s","nguid":"%s"}`, spare, ns.UUID, ns.NGUID),
					"wrong uuid":                     fmt.Sprintf(`,"namespace":{"nsid":1,"bdev_name":%q,"uuid":"%s","nguid":"%s"}`, bdev, other, ns.NGUID),
					"wrong nguid":                    fmt.Sprintf(`,"namespace":{"nsid":1,"bdev_name":%q,"uuid":"%s","nguid":"%s"}`, bdev, ns.UUID, other.NGUID()),
					"wrong nsid":                     fmt.Sprintf(`,"namespace":{"nsid":2,"bdev_name":%q,"uuid":"%s","nguid":"%s"}`, bdev, ns.UUID, ns.NGUID),
					"nvmf_subsystem_add_listener":    fmt.Sprintf(`,"listen_address":{"trtype":"TCP","adrfam":"IPv4","traddr":%q,"trsvcid":"%d"}`, l.Address, l.Port+1000),
				}[name]
				if !ok {
					t.Fatalf("no parameters for %q", name)
				}
				method := name
				if name[0] != 'n' {
					method = "nvmf_subsystem_add_ns"
				}
				call(t, c, method, `{"nqn":"`+want.NQN+`"`+params+`}`)
			}
		}
	}
	const removeNS = "nvmf_subsystem_remove_ns"
	return map[string]func(*testing.T, nvmeof.Subsystem){
		"namespace is missing":   hurt(removeNS),
		"namespace is too much":  hurt("too much"),
		"device path is wrong":   hurt(removeNS, "wrong bdev"),
		"uuid is wrong":          hurt(removeNS, "wrong uuid"),
		"nguid is wrong":         hurt(removeNS, "wrong nguid"),
		"nsid is wrong":          hurt(removeNS, "wrong nsid"),
		"host is missing":        hurt("nvmf_subsystem_remove_host"),
		"host is too much":       hurt("nvmf_subsystem_add_host"),
		"host is another":        hurt("nvmf_subsystem_remove_host", "nvmf_subsystem_add_host"),
		"any host is allowed":    hurt("nvmf_subsystem_allow_any_host"),
		"listener is missing":    hurt("nvmf_subsystem_remove_listener"),
		"listener is too much":   hurt("nvmf_subsystem_add_listener"),
		"listener is another":    hurt("nvmf_subsystem_remove_listener", "nvmf_subsystem_add_listener"),
		"everything is too much": hurt("too much", "nvmf_subsystem_add_host", "nvmf_subsystem_allow_any_host", "nvmf_subsystem_add_listener"),
	}
}
